// A file that only appears when it is complete.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "fourfold/formats/checksum.hpp"

namespace fourfold::formats {

/// The file is written under another name in the same folder; `commit` renames it. Until then an
/// existing file stays as it was. Without `commit` nothing is left behind.
class AtomicFile {
 public:
  /// Throws IoError when no file can be made there.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws IoError. After that the file cannot be committed any more.
  void write(std::span<const std::byte> bytes);

  /// Waits until the bytes are on the disk, and renames the file. Throws IoError.
  void commit();

  const std::filesystem::path& path() const { return path_; }
  /// Of the bytes that were written so far.
  std::int64_t size() const { return size_; }
  std::uint64_t checksum() const { return checksum_.value(); }

 private:
  void flush();
  void write_through(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::vector<std::byte> buffer_;
  Checksum checksum_;
  std::int64_t size_ = 0;
  int descriptor_ = -1;  ///< -1 after `commit`, or when a write failed
};

}  // namespace fourfold::formats
