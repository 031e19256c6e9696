// Many images in one picture, to look at.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "fourfold/formats/png.hpp"

namespace fourfold::data {

/// The shape of the picture that `contact_sheet` makes of so many images.
formats::PictureShape sheet_shape(std::int64_t count, std::int64_t size, int channels,
                                  std::int64_t columns);

/// Puts images of size x size x channels numbers in rows of `columns` images, from left to right
/// and from top to bottom, on white and with white between them. -1 becomes 0 and 1 becomes 255;
/// numbers beyond become the nearest of these, and what is not a number becomes 0. `images` holds
/// one image after the other, at least one; the last row need not be full.
formats::Picture contact_sheet(std::span<const float> images, std::int64_t size, int channels,
                               std::int64_t columns);

}  // namespace fourfold::data
