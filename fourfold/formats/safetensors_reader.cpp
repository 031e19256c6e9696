// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/safetensors_reader.hpp"

#include <cstdint>
#include <utility>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/formats/json_text.hpp"
#include "fourfold/formats/safetensors_header.hpp"

namespace fourfold::formats {

namespace {

/// The length of the header. The file is long enough for it.
std::size_t header_length(std::span<const std::byte> file, const std::filesystem::path& path) {
  if (file.size() < kLengthBytes) {
    refuse_file(path, concat("it has only ", file.size(), " bytes"));
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(file[i]);
  }
  if (length > kMaxHeaderBytes || length > file.size() - kLengthBytes) {
    refuse_file(path, concat("its first 8 bytes announce a header of ", length, " bytes, ",
                             file.size() - kLengthBytes, " follow and 100000000 are allowed"));
  }
  return length;
}

}  // namespace

SafetensorsReader::SafetensorsReader(std::filesystem::path path)
    : path_(std::move(path)), file_(path_) {
  const std::span<const std::byte> bytes = file_.bytes();
  const std::size_t length = header_length(bytes, path_);
  const std::span<const std::byte> text = bytes.subspan(kLengthBytes, length);
  data_ = bytes.subspan(kLengthBytes + length);
  Header header = parse_header({reinterpret_cast<const char*>(text.data()), text.size()},
                               static_cast<std::int64_t>(data_.size()), path_);
  entries_ = std::move(header.entries);
  metadata_ = std::move(header.metadata);
  for (std::size_t i = 0; i < entries_.size(); ++i) index_.emplace(entries_[i].name, i);
}

const TensorEntry& SafetensorsReader::entry(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) {
    throw ConfigError(concat(path_.string(), " has no tensor ", in_quotes(name),
                             "; check that the file is of the expected model"));
  }
  return entries_[found->second];
}

std::span<const std::byte> SafetensorsReader::data(std::string_view name) const {
  const TensorEntry& tensor = entry(name);
  return data_.subspan(static_cast<std::size_t>(tensor.begin),
                       static_cast<std::size_t>(tensor.bytes()));
}

}  // namespace fourfold::formats
