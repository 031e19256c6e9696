// Checksums of files, by XXH3 with 64 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace fourfold::formats {

/// The checksum of bytes that come in pieces. How they are cut makes no difference.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(std::span<const std::byte> bytes);
  /// Of everything that was added so far.
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t checksum_of(std::span<const std::byte> bytes);

/// Reads a whole file, in pieces. Throws IoError when it cannot be read.
std::uint64_t checksum_of_file(const std::filesystem::path& path);

/// 16 hexadecimal digits.
std::string checksum_text(std::uint64_t checksum);

}  // namespace fourfold::formats
