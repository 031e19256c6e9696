// A file that only appears when it is complete.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "fourfold/formats/checksum.hpp"

namespace fourfold::formats {

/// Whether what is written also stays in the memory of the system.
enum class Cache : std::uint8_t {
  kUse,
  /// Large files that nobody reads soon: the disk takes the bytes from our memory, which costs a
  /// fortieth of the processor's time. Where the file system cannot do that, the cache is used.
  kBypass,
};

/// The file is written under another name in the same folder; `commit` renames it. Until then an
/// existing file stays as it was. Without `commit` nothing is left behind.
class AtomicFile {
 public:
  /// Throws IoError when no file can be made there.
  explicit AtomicFile(std::filesystem::path path, Cache cache = Cache::kUse);
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
  struct Free {
    void operator()(std::byte* bytes) const;
  };

  bool open_file(Cache cache);
  void use_cache();
  void flush();
  void write_through(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::size_t capacity_;
  std::unique_ptr<std::byte[], Free> buffer_;
  std::size_t buffered_ = 0;
  Checksum checksum_;
  std::int64_t size_ = 0;
  bool bypasses_ = false;  ///< now: whole buffers only
  int descriptor_ = -1;    ///< -1 after `commit`, or when a write failed
};

}  // namespace fourfold::formats
