// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/safetensors_reader.hpp"

#include <cstdint>
#include <utility>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/formats/json_text.hpp"
#include "fourfold/formats/safetensors_header.hpp"

namespace fourfold::formats {

SafetensorsReader::SafetensorsReader(std::filesystem::path path)
    : path_(std::move(path)), file_(path_) {
  const std::span<const std::byte> bytes = file_.bytes();
  const auto length = static_cast<std::size_t>(
      header_length(bytes, static_cast<std::int64_t>(bytes.size()), path_));
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
