// How a diffusion model turns noise into images: one step of a sampler at a time, as pure functions
// of the images, what the model takes for their noise, and abar before and after the step
// (model/noise.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::model {

using at::Tensor;

/// The steps of the schedule that a sampler of `count` steps visits, evenly spaced, from the last
/// one, `noise_steps - 1`, downwards. Each step leads to the one that follows, and the last to the
/// image itself. `count` must be from 1 to `noise_steps`.
std::vector<std::int64_t> sampling_times(std::int64_t noise_steps, std::int64_t count);

/// The image that images with noise come from, if that is their noise; all numbers are brought to
/// -1 ... 1.
Tensor image_without(const Tensor& images, const Tensor& noise, double abar);

/// A step of DDIM, which draws no noise: from `abar` to `next`, which is larger.
Tensor ddim_step(const Tensor& images, const Tensor& noise, double abar, double next);

/// A step of DDPM: a draw from the distribution of the images at `next`, given these images and
/// their image without noise. `drawn` are normally distributed numbers, which are not used by the
/// step to the image itself (`next` = 1).
Tensor ddpm_step(const Tensor& images, const Tensor& noise, double abar, double next,
                 const Tensor& drawn);

}  // namespace fourfold::model
