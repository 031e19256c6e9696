// Files of images, byte by byte: gzip, IDX and every kind of PNG, written without the code that is
// tested and without libpng.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>
#include <zlib.h>

namespace fourfold::test {

/// Four bytes with the most significant one first.
inline std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

/// `bytes` as zlib's stream, or as a gzip file.
inline std::string deflated(std::string_view bytes, bool gzip) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, gzip ? 15 + 16 : 15, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}
inline std::string gzip_bytes(std::string_view bytes) {
  return deflated(bytes, true);
}

inline std::string idx_bytes(const std::vector<std::uint32_t>& shape, std::string_view values,
                             int type = 8) {
  std::string bytes = {0, 0, static_cast<char>(type), static_cast<char>(shape.size())};
  for (const std::uint32_t dimension : shape) bytes += big_endian(dimension);
  return bytes.append(values);
}

inline constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";

inline std::string png_chunk(std::string_view type, std::string_view data) {
  const std::string body = std::string(type).append(data);
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body +
         big_endian(static_cast<std::uint32_t>(sum));
}

/// A PNG file of any kind.
struct PngFile {
  std::uint32_t width = 1;
  std::uint32_t height = 1;
  unsigned depth = 8;   ///< bits of a sample
  unsigned colour = 0;  ///< 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA
  bool interlaced = false;
  std::vector<unsigned> samples = {};  ///< rows x columns x channels
  std::string more_chunks = {};        ///< between the header and the data

  unsigned channels() const { return std::array{1U, 0U, 3U, 1U, 2U, 0U, 4U}[colour]; }

  std::string header() const {
    std::string data = big_endian(width) + big_endian(height);
    for (const unsigned byte : {depth, colour, 0U, 0U, interlaced ? 1U : 0U}) {
      data += static_cast<char>(byte);
    }
    return png_chunk("IHDR", data);
  }

  std::string bytes() const {
    return std::string(kPngSignature) + header() + more_chunks +
           png_chunk("IDAT", deflated(rows(), false)) + png_chunk("IEND", "");
  }

 private:
  /// Every step-th pixel of every step-th row, as it stands in the file: unfiltered.
  std::string pass(std::uint32_t top, std::uint32_t left, std::uint32_t down,
                   std::uint32_t right) const {
    std::string bytes;
    for (std::uint32_t row = top; row < height && left < width; row += down) {
      bytes += '\0';
      unsigned bits = 0;
      unsigned filled = 0;
      for (std::uint32_t column = left; column < width; column += right) {
        for (unsigned channel = 0; channel < channels(); ++channel) {
          bits = bits << depth | samples[(row * width + column) * channels() + channel];
          for (filled += depth; filled >= 8; filled -= 8) {
            bytes += static_cast<char>(bits >> (filled - 8));
          }
        }
      }
      if (filled > 0) bytes += static_cast<char>(bits << (8 - filled));
    }
    return bytes;
  }

  std::string rows() const {
    if (!interlaced) return pass(0, 0, 1, 1);
    return pass(0, 0, 8, 8) + pass(0, 4, 8, 8) + pass(4, 0, 8, 4) + pass(0, 2, 4, 4) +
           pass(2, 0, 4, 2) + pass(0, 1, 2, 2) + pass(1, 0, 2, 1);
  }
};

}  // namespace fourfold::test
