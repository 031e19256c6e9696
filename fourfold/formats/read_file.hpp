// A file of which parts are read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace fourfold::formats {

/// Unlike a mapped file it can become shorter or vanish: then reading throws.
class ReadFile {
 public:
  /// Throws IoError when it cannot be read.
  explicit ReadFile(std::filesystem::path path);
  ~ReadFile();
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// In bytes, when it was opened.
  std::int64_t size() const { return size_; }
  /// Fills `bytes` with those from `begin` on. Throws IoError unless all are there.
  void read(std::int64_t begin, std::span<std::byte> bytes) const;
  /// How many bytes were read so far, those that were read again included.
  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  mutable std::atomic<std::int64_t> bytes_read_{0};
};

}  // namespace fourfold::formats
