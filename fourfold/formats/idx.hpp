// Reads IDX files, the format of MNIST's images and labels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "fourfold/formats/mapped_file.hpp"

namespace fourfold::formats {

/// An array of bytes with one dimension (labels) or three (images: their number, rows, columns). A
/// plain file is mapped; one that is compressed by gzip is unpacked in memory. The header has been
/// checked against the file.
class IdxFile {
 public:
  /// Throws ConfigError when the file is missing, damaged or of another format. Allocates no more
  /// than a file of its length can hold.
  explicit IdxFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  /// The last dimension runs fastest. Valid as long as this object, or the one that it was moved
  /// to.
  std::span<const std::uint8_t> values() const { return values_; }

 private:
  void view();
  void unpack();

  std::filesystem::path path_;
  MappedFile file_;
  std::unique_ptr<std::byte[]> unpacked_;
  std::vector<std::int64_t> shape_;
  std::span<const std::uint8_t> values_;  // of file_ or of unpacked_
};

}  // namespace fourfold::formats
