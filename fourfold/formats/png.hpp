// Reads and writes pictures as PNG files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace fourfold::formats {

/// Larger pictures are neither read nor written: a small file can pretend to hold a huge one.
inline constexpr std::int64_t kLongestSide = 16384;
inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;

struct PictureShape {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 0;  ///< 1 for grey, 3 for red, green and blue

  std::size_t bytes() const {
    return static_cast<std::size_t>(width * height) * static_cast<std::size_t>(channels);
  }
  bool operator==(const PictureShape&) const = default;
};

/// Whether a picture of this shape is small enough to be read and written.
bool fits_png(const PictureShape& shape);

struct Picture {
  PictureShape shape;
  std::vector<std::uint8_t> pixels;  ///< rows x columns x channels

  bool operator==(const Picture&) const = default;
};

/// What `read_png` would return, from the first bytes of the file; the rest is not looked at.
/// Throws ConfigError when it is not a PNG file or not one that `read_png` reads.
PictureShape read_png_shape(const std::filesystem::path& path);

/// Every kind of PNG becomes grey or RGB of 8 bits in sRGB. What is transparent is put on white.
/// Throws ConfigError when the file is missing, damaged, cut short, too large or of another format,
/// or has 16 bits and is interlaced.
Picture read_png(const std::filesystem::path& path);

/// The file only appears when it is complete. Throws IoError.
void write_png(const std::filesystem::path& path, const Picture& picture);

}  // namespace fourfold::formats
