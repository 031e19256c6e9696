// Draws images with a U-Net, on any grid: the noise that they begin with is a function of the seed,
// the number of the image and the element, so that every grid draws the same images.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "fourfold/model/unet.hpp"

namespace fourfold::model {

enum class Sampler {
  kDdim,  ///< needs fewer steps, and draws no noise on the way
  kDdpm,
};

struct Drawing {
  std::int64_t images = 64;
  std::int64_t steps = 50;  ///< passes through the model for each image
  Sampler sampler = Sampler::kDdim;
  std::uint64_t seed = 1;
  std::int64_t at_once = 0;  ///< images of a pass over the whole grid; 0: all
};

/// Why a model cannot draw so; empty if it can.
std::string drawing_misfit(const UNetSpec& spec, const Drawing& drawing);

/// What the whole network predicts for images with noise: see UNet::predict. The same on all ranks
/// with the same images, in a pipeline as well.
using PredictNoise = std::function<Tensor(const UNet::Noised& noised, const nn::Batch& batch)>;

/// {images, pixels, colours} in float, with numbers from -1 to 1, the same on all ranks. Images of
/// a pass are split over data and z; where they do not divide, more are computed. `show` is told
/// the share that is done. Collective.
Tensor draw_images(const Mesh& mesh, const UNetSpec& spec, const PredictNoise& predict,
                   const Drawing& drawing, const std::function<void(double done)>& show = {});
/// The same with a network that is whole.
Tensor draw_images(const Mesh& mesh, const UNet& net, const Drawing& drawing,
                   const std::function<void(double done)>& show = {});

}  // namespace fourfold::model
