// Brings images of any size and colours to the size and the colours of a training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "fourfold/formats/png.hpp"

namespace fourfold::data {

/// Writes size x size x channels numbers in [-1, 1]: of the bytes 0 and 255 become -1 and 1. The
/// picture is scaled down so that its shorter side becomes `size`, each result the average of the
/// area that it covers, and of the longer side the middle is kept. Grey becomes three equal
/// channels, and colour becomes luma. `flip` exchanges left and right. `pixels` are the bytes of
/// the picture, whose shorter side is `size` at least and whose longer one kLongestSide at most.
void fit_image(const formats::PictureShape& shape, const std::uint8_t* pixels, std::int64_t size,
               int channels, bool flip, float* out);

}  // namespace fourfold::data
