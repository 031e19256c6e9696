// The noise of a diffusion model. Step t of T turns an image x0 into
//     x_t = sqrt(abar_t) · x0 + sqrt(1 - abar_t) · noise,
// and abar falls from almost 1 at t = 0 to almost 0 at t = T - 1. Times and noise are functions of
// a key, the number of the sample and the element, so they are the same on every grid.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fourfold/kernels/random.hpp"
#include "fourfold/nn/rows.hpp"

namespace fourfold::model {

using at::Tensor;

struct NoiseSpec {
  /// How abar falls: `kLinear` is that of DDPM, whose variances grow linearly; `kCosine` that of
  /// improved DDPM, abar(u) = cos²((u + 0.008) / 1.008 · π/2) of the part u of the steps.
  enum class Schedule { kLinear, kCosine };

  Schedule schedule = Schedule::kCosine;
  std::int64_t steps = 1000;

  bool operator==(const NoiseSpec&) const = default;
};

/// The numbers of a schedule, by step.
class Noise {
 public:
  /// Throws ConfigError when there are fewer than 2 steps.
  explicit Noise(const NoiseSpec& spec);

  const NoiseSpec& spec() const { return spec_; }
  std::int64_t steps() const { return spec_.steps; }
  /// The variance of the noise that a step adds; at most 0.999.
  const std::vector<double>& betas() const { return betas_; }
  /// abar_t = the product of 1 - beta up to step t.
  const std::vector<double>& alphas_cumprod() const { return alphas_cumprod_; }
  /// abar of a step; 1 for step -1, which is the image itself.
  double alpha_cumprod(std::int64_t t) const;

  /// Draws the steps of the samples with these numbers, each as likely as the others. The result
  /// has one element a sample, a whole number in `type`, float or double, in main memory, or
  /// without memory where `host` is meta.
  Tensor draw_times(const grid::Range& samples, kernels::Key key, at::ScalarType type,
                    c10::Device host) const;

  /// The images of samples `first_sample`, ... with the noise of their steps: x_t in `type`, which
  /// may be bf16, in one pass over `images`. `times` are in main memory. The noise is that of
  /// `draw_noise`.
  Tensor add_noise(const Tensor& images, const Tensor& times, std::int64_t first_sample,
                   kernels::Key key, at::ScalarType type) const;

 private:
  NoiseSpec spec_;
  std::vector<double> betas_;
  std::vector<double> alphas_cumprod_;
};

/// The noise of samples `first_sample`, ..., of the shape and the type of `like`, whose first
/// dimension is that of samples. `like` may be meta.
Tensor draw_noise(const Tensor& like, std::int64_t first_sample, kernels::Key key);

/// The stream of times and noise of a pass. It differs from one step of training to the next; in a
/// pass that does not train it is always the same, so that losses can be compared.
struct NoiseKeys {
  NoiseKeys(std::uint64_t seed, const nn::Batch& batch, bool training);

  kernels::Key times;
  kernels::Key noise;
};

}  // namespace fourfold::model
