// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/contact_sheet.hpp"

#include <algorithm>
#include <cmath>

#include "fourfold/base/check.hpp"

namespace fourfold::data {

namespace {

constexpr std::int64_t kSpace = 2;  // pixels between images
constexpr std::uint8_t kPaper = 255;

std::uint8_t as_byte(float value) {
  if (std::isnan(value)) return 0;
  return static_cast<std::uint8_t>(std::lround((std::clamp(value, -1.0F, 1.0F) + 1.0F) * 127.5F));
}

/// The length of `count` images in a row.
std::int64_t length_of(std::int64_t count, std::int64_t size) {
  return count * (size + kSpace) - kSpace;
}

}  // namespace

formats::PictureShape sheet_shape(std::int64_t count, std::int64_t size, int channels,
                                  std::int64_t columns) {
  FOURFOLD_CHECK(count > 0 && size > 0 && columns > 0, count, " images in ", columns, " columns");
  const std::int64_t across = std::min(columns, count);
  const std::int64_t down = (count - 1) / across + 1;
  return {length_of(across, size), length_of(down, size), channels};
}

formats::Picture contact_sheet(std::span<const float> images, std::int64_t size, int channels,
                               std::int64_t columns) {
  FOURFOLD_CHECK(size > 0 && (channels == 1 || channels == 3) && columns > 0, size, " x ", size,
                 " x ", channels, " in ", columns, " columns");
  const std::int64_t values = size * size * channels;
  const std::int64_t count = static_cast<std::int64_t>(images.size()) / values;
  FOURFOLD_CHECK(count > 0 && static_cast<std::int64_t>(images.size()) == count * values,
                 images.size(), " values of images of ", values);
  const std::int64_t across = std::min(columns, count);
  formats::Picture sheet{sheet_shape(count, size, channels, columns), {}};
  sheet.pixels.assign(sheet.shape.bytes(), kPaper);
  const float* from = images.data();
  for (std::int64_t image = 0; image < count; ++image) {
    const std::int64_t top = image / across * (size + kSpace);
    const std::int64_t left = image % across * (size + kSpace);
    for (std::int64_t row = 0; row < size; ++row, from += size * channels) {
      const std::int64_t to = ((top + row) * sheet.shape.width + left) * channels;
      std::transform(from, from + size * channels, sheet.pixels.begin() + to, as_byte);
    }
  }
  return sheet;
}

}  // namespace fourfold::data
