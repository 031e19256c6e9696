// Reads a safetensors file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/formats/mapped_file.hpp"
#include "fourfold/formats/safetensors.hpp"

namespace fourfold::formats {

/// The tensors of one file, which is mapped and not read: data is read from the disk when it is
/// accessed. The whole header has been checked against the file.
class SafetensorsReader {
 public:
  /// Throws ConfigError when the file is missing, damaged or of another format.
  explicit SafetensorsReader(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  /// The entries in the order of their data.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  const Metadata& metadata() const { return metadata_; }

  bool contains(std::string_view name) const { return index_.contains(name); }
  /// Throws ConfigError that names the file when the tensor is not in it.
  const TensorEntry& entry(std::string_view name) const;
  /// The data is valid as long as this object. Files of other writers need not be aligned: copy the
  /// data before using it as numbers. Throws like `entry`.
  std::span<const std::byte> data(std::string_view name) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::span<const std::byte> data_;  // the bytes after the header
  std::vector<TensorEntry> entries_;
  Metadata metadata_;
  std::map<std::string, std::size_t, std::less<>> index_;  // into entries_
};

}  // namespace fourfold::formats
