// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/png.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <png.h>
#include <span>
#include <string_view>

#include "fourfold/base/check.hpp"
#include "fourfold/formats/atomic_file.hpp"
#include "fourfold/formats/mapped_file.hpp"
#include "fourfold/formats/refuse_file.hpp"

namespace fourfold::formats {

namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
constexpr std::size_t kChunkFrame = 12;  // length, type and checksum of a chunk
constexpr std::size_t kHeaderBytes = 13;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Four bytes with the most significant one first.
std::int64_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  std::int64_t number = 0;
  for (const std::byte byte : bytes.subspan(at, 4)) {
    number = number << 8 | std::to_integer<std::int64_t>(byte);
  }
  return number;
}

PictureShape parse_shape(std::span<const std::byte> file, const std::filesystem::path& path) {
  if (!as_text(file).starts_with(kSignature)) {
    refuse_file(path, "it is not a PNG file, which begins with a fixed signature");
  }
  const std::span<const std::byte> chunk = file.subspan(kSignature.size());
  if (chunk.size() < kChunkFrame + kHeaderBytes || number_at(chunk, 0) != kHeaderBytes ||
      as_text(chunk.subspan(4, 4)) != "IHDR") {
    refuse_file(path, "its PNG header is missing or cut short");
  }
  const auto depth = std::to_integer<unsigned>(chunk[8 + 8]);
  const auto colour_type = std::to_integer<unsigned>(chunk[8 + 9]);
  const auto interlaced = std::to_integer<unsigned>(chunk[8 + 12]);
  const bool colour = (colour_type & PNG_COLOR_MASK_COLOR) != 0;
  const PictureShape shape = {number_at(chunk, 8), number_at(chunk, 12), colour ? 3 : 1};
  if (shape.width < 1 || shape.height < 1) refuse_file(path, "it has no pixels");
  if (!fits_png(shape)) {
    throw ConfigError(concat(path.string(), " is too large: ", shape.width, " x ", shape.height,
                             " pixels, at most ", kLongestSide, " on a side and ", kMostPixels,
                             " in all are read; scale it down"));
  }
  // The functions of libpng that report errors as values mix up the rows of such files since the
  // correction of CVE-2025-65018 (libpng's issue 853).
  if (depth == 16 && interlaced != 0) {
    throw ConfigError(concat(path.string(), " has 16 bits and is interlaced, which libpng reads ",
                             "wrongly; save it with 8 bits or without interlacing"));
  }
  return shape;
}

/// Refuses a file whose chunks do not reach the one that ends a PNG. libpng does not look at what
/// comes after the last row.
void check_complete(std::span<const std::byte> file, const std::filesystem::path& path) {
  for (std::span<const std::byte> rest = file.subspan(kSignature.size());;) {
    const std::size_t size =
        rest.size() < kChunkFrame ? 0 : static_cast<std::size_t>(number_at(rest, 0));
    if (rest.size() < kChunkFrame || rest.size() - kChunkFrame < size) {
      refuse_file(path, concat("its PNG data is cut short after ", file.size(), " bytes"));
    }
    if (as_text(rest.subspan(4, 4)) == "IEND") return;
    rest = rest.subspan(kChunkFrame + size);
  }
}

/// libpng's description of a picture. Its functions for whole pictures report errors as values:
/// nothing jumps over the destructors of C++.
class PngImage {
 public:
  PngImage() { image_.version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(&image_); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;

  png_image* operator->() { return &image_; }
  png_image* get() { return &image_; }
  std::string message() const { return in_quotes(image_.message); }

 private:
  png_image image_{};
};

/// Rows of pixels whose last channel is alpha, put on white. As browsers and most tools do it, the
/// bytes are mixed as they are, and not the amounts of light.
std::vector<std::uint8_t> on_white(std::span<const std::uint8_t> pixels, std::size_t channels) {
  constexpr unsigned kWhite = 255;
  std::vector<std::uint8_t> result;
  result.reserve(pixels.size() / (channels + 1) * channels);
  for (std::size_t at = 0; at < pixels.size(); at += channels + 1) {
    const unsigned alpha = pixels[at + channels];
    for (const unsigned value : pixels.subspan(at, channels)) {
      const unsigned mixed = (value * alpha + kWhite * (kWhite - alpha) + kWhite / 2) / kWhite;
      result.push_back(static_cast<std::uint8_t>(mixed));
    }
  }
  return result;
}

}  // namespace

bool fits_png(const PictureShape& shape) {
  return shape.width <= kLongestSide && shape.height <= kLongestSide &&
         shape.width * shape.height <= kMostPixels;
}

PictureShape read_png_shape(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_shape(file.bytes(), path);
}

Picture read_png(const std::filesystem::path& path) {
  const MappedFile file(path);
  Picture picture;
  picture.shape = parse_shape(file.bytes(), path);
  check_complete(file.bytes(), path);
  PngImage image;
  const auto damaged = [&] {
    refuse_file(path, concat("its PNG data is damaged: libpng says ", image.message()));
  };
  if (png_image_begin_read_from_memory(image.get(), file.bytes().data(), file.bytes().size()) ==
      0) {
    damaged();
  }
  // The file may have been overwritten meanwhile, and libpng trusts its own numbers.
  if (image->width != picture.shape.width || image->height != picture.shape.height) {
    refuse_file(path, "it changed while it was read");
  }
  const bool alpha = (image->format & PNG_FORMAT_FLAG_ALPHA) != 0;
  const std::uint32_t format = picture.shape.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  image->format = format | (alpha ? PNG_FORMAT_FLAG_ALPHA : 0);
  // Without this flag libpng takes 16 bits without a gamma for amounts of light.
  image->flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  picture.pixels.resize(PNG_IMAGE_SIZE(*image.get()));
  if (png_image_finish_read(image.get(), nullptr, picture.pixels.data(), 0, nullptr) == 0) {
    damaged();
  }
  if (alpha) {
    picture.pixels = on_white(picture.pixels, static_cast<std::size_t>(picture.shape.channels));
  }
  return picture;
}

void write_png(const std::filesystem::path& path, const Picture& picture) {
  const PictureShape& shape = picture.shape;
  FOURFOLD_CHECK(shape.width > 0 && shape.height > 0 && fits_png(shape) &&
                     (shape.channels == 1 || shape.channels == 3) &&
                     picture.pixels.size() == shape.bytes(),
                 shape.width, " x ", shape.height, " x ", shape.channels, " pixels in ",
                 picture.pixels.size(), " bytes");
  PngImage image;
  image->width = static_cast<png_uint_32>(shape.width);
  image->height = static_cast<png_uint_32>(shape.height);
  image->format = shape.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(*image.get());
  const auto bytes = std::make_unique_for_overwrite<std::byte[]>(size);
  if (png_image_write_to_memory(image.get(), bytes.get(), &size, 0, picture.pixels.data(), 0,
                                nullptr) == 0) {
    throw IoError(concat(path.string(), " cannot be written: libpng says ", image.message()));
  }
  AtomicFile file(path);
  file.write({bytes.get(), size});
  file.commit();
}

}  // namespace fourfold::formats
