// A U-Net of one process, written with libtorch's own operations on pictures: what every grid must
// agree with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/model/unet.hpp"

#include "tests/model/reference.hpp"

namespace fourfold::test {

/// A small network that every grid of 8 ranks can be split over, and those of 6: three levels, and
/// attention on both ways and in the middle.
model::UNetSpec small_unet();

Weights initial_weights(const model::UNetSpec& spec);

/// Images of the samples first, first + 1, ...: {samples, pixels, colours} from -1 to 1.
Tensor some_images(const model::UNetSpec& spec, std::int64_t first, std::int64_t samples);

/// What the network makes of images with noise: {samples, pixels, outputs}. With `training`,
/// dropout multiplies by our masks.
Tensor unet_prediction(const model::UNetSpec& spec, const Weights& weights, const Tensor& images,
                       const Tensor& times, std::uint64_t step, bool training);

struct UNetResult {
  Tensor noised;
  Tensor times;
  Tensor prediction;
  double loss = 0;
  Weights gradients;
  double largest = 0;  ///< of all gradients
};

/// One forward and backward pass over all samples.
UNetResult run_unet_reference(const model::UNetSpec& spec, const Weights& weights,
                              const Tensor& images, std::uint64_t step, bool training);

}  // namespace fourfold::test
