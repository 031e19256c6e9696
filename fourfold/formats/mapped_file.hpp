// The bytes of a file, mapped into memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace fourfold::formats {

/// Maps a whole file, read-only. Data is only read when it is accessed. The file must not become
/// shorter meanwhile: the system ends a process that accesses bytes beyond the end.
class MappedFile {
 public:
  /// Throws ConfigError when `path` is not a file that can be read, IoError when it cannot be
  /// mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  /// Valid as long as this object, or the object that it was moved to.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace fourfold::formats
