// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/noise.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "fourfold/base/check.hpp"
#include "fourfold/base/error.hpp"
#include "fourfold/kernels/noise.hpp"

namespace fourfold::model {

namespace {

double cosine_of(double part) {
  const double root = std::cos((part + 0.008) / 1.008 * std::numbers::pi / 2);
  return root * root;
}

double beta_of(const NoiseSpec& spec, std::int64_t t) {
  const auto steps = static_cast<double>(spec.steps);
  const auto step = static_cast<double>(t);
  if (spec.schedule == NoiseSpec::Schedule::kCosine) {
    return std::min(0.999, 1 - cosine_of((step + 1) / steps) / cosine_of(step / steps));
  }
  // The numbers of DDPM are for 1000 steps; fewer steps add as much noise in the end.
  const double scale = 1000 / steps;
  return std::min(0.999, scale * (1e-4 + (0.02 - 1e-4) * step / (steps - 1)));
}

double time_at(const Tensor& times, std::int64_t i) {
  if (times.scalar_type() == at::kDouble) return times.data_ptr<double>()[i];
  return times.data_ptr<float>()[i];
}

}  // namespace

Noise::Noise(const NoiseSpec& spec) : spec_(spec) {
  if (spec.steps < 2) {
    throw ConfigError(
        concat("a model that removes noise needs at least 2 steps of noise, but "
               "model.noise_steps is ",
               spec.steps));
  }
  double product = 1;
  for (std::int64_t t = 0; t < spec.steps; ++t) {
    betas_.push_back(beta_of(spec, t));
    product *= 1 - betas_.back();
    alphas_cumprod_.push_back(product);
  }
}

double Noise::alpha_cumprod(std::int64_t t) const {
  FOURFOLD_CHECK(t >= -1 && t < steps(), "step ", t, " of ", steps());
  return t < 0 ? 1.0 : alphas_cumprod_[static_cast<std::size_t>(t)];
}

Tensor Noise::draw_times(const grid::Range& samples, kernels::Key key, at::ScalarType type,
                         c10::Device host) const {
  FOURFOLD_CHECK(type == at::kFloat || type == at::kDouble);
  const auto options = at::TensorOptions(host).dtype(type);
  Tensor times = at::empty({samples.size()}, options);
  if (times.is_meta()) return times;
  AT_DISPATCH_FLOATING_TYPES(type, "draw_times", [&] {
    auto* out = times.data_ptr<scalar_t>();
    for (std::int64_t sample = samples.begin; sample < samples.end; ++sample) {
      *out++ = static_cast<scalar_t>(kernels::uniform_number(steps(), sample, key));
    }
  });
  return times;
}

Tensor Noise::add_noise(const Tensor& images, const Tensor& times, std::int64_t first_sample,
                        kernels::Key key, at::ScalarType type) const {
  FOURFOLD_CHECK_EQ(times.numel(), images.size(0));
  Tensor result = at::empty_like(images, images.options().dtype(type));
  if (images.is_meta()) return result;
  std::vector<double> signal;
  std::vector<double> noise;
  for (std::int64_t i = 0; i < times.numel(); ++i) {
    const double abar = alpha_cumprod(std::llround(time_at(times, i)));
    signal.push_back(std::sqrt(abar));
    noise.push_back(std::sqrt(1 - abar));
  }
  kernels::mix_noise(images, result, first_sample, key, signal, noise);
  return result;
}

Tensor draw_noise(const Tensor& like, std::int64_t first_sample, kernels::Key key) {
  Tensor noise = at::empty_like(like);
  kernels::fill_noise(noise, first_sample, key);
  return noise;
}

NoiseKeys::NoiseKeys(std::uint64_t seed, const nn::Batch& batch, bool training) {
  const auto key = [&](const char* trained, const char* validated) {
    return training ? key_of(kernels::key_of(seed, trained), batch.step)
                    : kernels::key_of(seed, validated);
  };
  times = key("times", "times of a validation");
  noise = key("noise", "noise of a validation");
}

}  // namespace fourfold::model
