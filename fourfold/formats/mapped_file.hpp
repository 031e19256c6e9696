// A file's bytes, in memory as they are used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace fourfold::formats {

/// Maps a whole file, read-only; nothing is read before it is looked at. The file must not become
/// shorter in the meantime: the system ends a process that looks at what is no longer there.
class MappedFile {
 public:
  /// Throws ConfigError when `path` is not a file that can be read, IoError when it cannot be
  /// mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  /// Valid as long as this object, or the one that it was moved to.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace fourfold::formats
