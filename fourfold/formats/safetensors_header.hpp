// Converts between the bytes of a safetensors header and its content.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/formats/read_file.hpp"
#include "fourfold/formats/safetensors.hpp"

namespace fourfold::formats {

/// The longest header. Other readers refuse longer ones.
inline constexpr std::int64_t kMaxHeaderBytes = 100'000'000;
/// The number of bytes that hold the length of the header.
inline constexpr std::int64_t kLengthBytes = 8;

struct Header {
  std::vector<TensorEntry> entries;  ///< in the order of their data
  Metadata metadata;
};

/// Reads the text of the header, in a file with `data_bytes` bytes after it. The resulting entries
/// fill these bytes without gaps and overlaps, and their names are different. Anything else is a
/// ConfigError that names `path`.
Header parse_header(std::string_view text, std::int64_t data_bytes,
                    const std::filesystem::path& path);

/// The length of a header, from the first 8 bytes of a file of `file_bytes` bytes, which has room
/// for it. Throws ConfigError that names `path`.
std::int64_t header_length(std::span<const std::byte> begin, std::int64_t file_bytes,
                           const std::filesystem::path& path);

/// The header of a file, and where the data begins in it.
struct FileHeader {
  std::vector<TensorEntry> entries;  ///< in the order of their data
  Metadata metadata;
  std::int64_t data_begin = 0;
};
/// Reads nothing but the header. Throws ConfigError, or IoError when the file cannot be read.
FileHeader read_header(const ReadFile& file);

/// The places of the tensors in a file. Tensors with the largest alignment come first, so that all
/// are aligned, and equal ones are sorted by name. Throws InvariantError when a name is used twice
/// or a size is impossible.
std::vector<TensorEntry> lay_out(std::vector<TensorSpec> tensors);

/// The bytes before the data: length, JSON, and spaces up to a multiple of 8. Throws InvariantError
/// when the header is too long for other readers.
std::string encode_header(const Header& header);

}  // namespace fourfold::formats
