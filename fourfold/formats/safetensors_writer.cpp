// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/safetensors_writer.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "fourfold/base/check.hpp"
#include "fourfold/formats/safetensors_header.hpp"

namespace fourfold::formats {

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, std::vector<TensorSpec> tensors,
                                     Metadata metadata, Cache cache)
    : file_(std::move(path), cache), entries_(lay_out(std::move(tensors))) {
  metadata.emplace("format", "pt");
  const std::string header = encode_header({entries_, std::move(metadata)});
  file_.write(std::as_bytes(std::span(header)));
  write({});  // skips tensors without elements
}

const TensorEntry* SafetensorsWriter::next() const {
  return next_ < entries_.size() ? &entries_[next_] : nullptr;
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  const std::int64_t total = entries_.empty() ? 0 : entries_.back().end;
  FOURFOLD_CHECK(static_cast<std::int64_t>(bytes.size()) <= total - written_, bytes.size(),
                 " bytes, but ", total - written_, " are missing in ", file_.path());
  file_.write(bytes);
  written_ += static_cast<std::int64_t>(bytes.size());
  while (next_ < entries_.size() && entries_[next_].end <= written_) ++next_;
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const TensorEntry& e) { return e.name == name; });
  FOURFOLD_CHECK(entry != entries_.end(), "tensor ", name, " of ", file_.path());
  FOURFOLD_CHECK_EQ(static_cast<std::int64_t>(bytes.size()), entry->bytes(), "bytes of ", name);
  if (bytes.empty()) return;
  FOURFOLD_CHECK_EQ(entry->begin, written_, "place of ", name, " in ", file_.path());
  write(bytes);
}

void SafetensorsWriter::commit() {
  FOURFOLD_CHECK(next() == nullptr, "the data of ", next()->name, " is missing");
  file_.commit();
}

}  // namespace fourfold::formats
