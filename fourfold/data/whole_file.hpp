// Reads small files that a user names, each at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace fourfold::data {

/// Larger than the files of every tokenizer.
inline constexpr std::int64_t kLargestFile = std::int64_t{128} << 20;

/// The content of a regular file of at most `limit` bytes. Throws ConfigError that names the file
/// when it cannot be opened or is larger, IoError when reading fails.
std::string read_whole(const std::string& path, std::int64_t limit = kLargestFile);

/// `message` as one line without control characters, for error messages of other libraries.
std::string one_line(std::string message);

}  // namespace fourfold::data
