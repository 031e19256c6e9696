// Pictures that a model in training draws, to look at.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/formats/png.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::train {

/// Images of a model side by side, so many in a row: {images, pixels, colours}.
formats::Picture sheet_of(const Tensor& images, std::int64_t columns);

/// Whether the model draws images.
bool can_draw(const Trainer& trainer);

/// Whether the images of `draw_picture` are small enough to lie side by side in a file.
bool fits_picture(const Trainer& trainer);

/// Draws 4 x 8 images in a few steps, with the running mean of the weights if there is one. The
/// same seed gives images that can be compared from step to step. Nothing that training depends on
/// changes. The picture is the same on all ranks. Collective.
formats::Picture draw_picture(const Mesh& mesh, Trainer& trainer, std::uint64_t seed);

/// "samples-000500.png".
std::string picture_name(std::int64_t step);

}  // namespace fourfold::train
