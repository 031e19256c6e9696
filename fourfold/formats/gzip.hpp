// Unpacks gzip files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

struct z_stream_s;

namespace fourfold::formats {

/// No gzip file unpacks to more than this many times its size: the format cannot say it shorter.
inline constexpr std::size_t kLargestGzipRatio = 1032;

/// Whether these bytes begin as a gzip file does.
bool is_gzip(std::span<const std::byte> bytes);

/// Unpacks a gzip file in order, and only as far as it is read.
class GzipReader {
 public:
  /// `packed` is the whole file and must stay as long as this object. `path` is for messages.
  GzipReader(std::span<const std::byte> packed, std::filesystem::path path);

  /// Fills `bytes` and returns how many there were: fewer than asked for only at the end, whose
  /// checksum then has been checked. Throws ConfigError when the file is damaged, cut short or
  /// followed by something else.
  std::size_t read(std::span<std::byte> bytes);

 private:
  /// Unpacks until `bytes` is full or the member ends. Returns the number of bytes.
  std::size_t unpack(std::span<std::byte> bytes);
  void begin_next_member();

  std::filesystem::path path_;
  std::span<const std::byte> rest_;  // what is not unpacked yet
  std::unique_ptr<z_stream_s, void (*)(z_stream_s*)> stream_;
  bool ended_ = false;
};

}  // namespace fourfold::formats
