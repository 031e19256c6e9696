// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/denoise.hpp"

#include <cmath>

#include "fourfold/base/check.hpp"

namespace fourfold::model {

namespace {

void check_step(double abar, double next) {
  FOURFOLD_CHECK(abar > 0 && abar < next && next <= 1, "a step from ", abar, " to ", next);
}

}  // namespace

std::vector<std::int64_t> sampling_times(std::int64_t noise_steps, std::int64_t count) {
  FOURFOLD_CHECK(count >= 1 && count <= noise_steps, count, " steps of ", noise_steps);
  std::vector<std::int64_t> times;
  for (std::int64_t left = count; left > 0; --left) {
    times.push_back(left * noise_steps / count - 1);
  }
  return times;
}

Tensor image_without(const Tensor& images, const Tensor& noise, double abar) {
  return images.sub(noise, std::sqrt(1 - abar)).div_(std::sqrt(abar)).clamp_(-1, 1);
}

Tensor ddim_step(const Tensor& images, const Tensor& noise, double abar, double next) {
  check_step(abar, next);
  const Tensor image = image_without(images, noise, abar);
  if (next == 1) return image;
  // The noise that belongs to the image as it was brought to -1 ... 1.
  const Tensor rest = images.sub(image, std::sqrt(abar)).div_(std::sqrt(1 - abar));
  return image.mul(std::sqrt(next)).add_(rest, std::sqrt(1 - next));
}

Tensor ddpm_step(const Tensor& images, const Tensor& noise, double abar, double next,
                 const Tensor& drawn) {
  check_step(abar, next);
  const Tensor image = image_without(images, noise, abar);
  if (next == 1) return image;
  const double beta = 1 - abar / next;
  const double of_image = std::sqrt(next) * beta / (1 - abar);
  const double of_images = std::sqrt(abar / next) * (1 - next) / (1 - abar);
  const double variance = beta * (1 - next) / (1 - abar);
  return image.mul(of_image).add_(images, of_images).add_(drawn, std::sqrt(variance));
}

}  // namespace fourfold::model
