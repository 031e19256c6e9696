// The header of a safetensors file, between its bytes and what it says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/formats/safetensors.hpp"

namespace fourfold::formats {

/// Readers everywhere refuse longer ones.
inline constexpr std::int64_t kMaxHeaderBytes = 100'000'000;
/// The bytes that say how long the header is.
inline constexpr std::int64_t kLengthBytes = 8;

struct Header {
  std::vector<TensorEntry> entries;  ///< in the order of their data
  Metadata metadata;
};

/// Reads the header's text, in a file with `data_bytes` bytes behind it. The entries that it gives
/// fill these bytes without holes and overlaps, and their names are different; everything else is a
/// ConfigError that names `path`.
Header parse_header(std::string_view text, std::int64_t data_bytes,
                    const std::filesystem::path& path);

/// Where the tensors lie in a file: those with the largest alignment first, so that all are
/// aligned, and by name among equals. Throws InvariantError when a name is used twice or a size is
/// impossible.
std::vector<TensorEntry> lay_out(std::vector<TensorSpec> tensors);

/// The bytes before the data: length, JSON, and spaces up to a multiple of 8. Throws InvariantError
/// when they are too many for other readers.
std::string encode_header(const Header& header);

}  // namespace fourfold::formats
