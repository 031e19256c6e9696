// The noise of diffusion models: the numbers of the schedules, draws that depend on the sample and
// the element alone, and the steps of the samplers, against formulas that are written out here.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/noise.hpp"

#include <cmath>
#include <numbers>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/model/denoise.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;
using kernels::Key;
using kernels::key_of;
using model::Noise;
using model::NoiseSpec;
using Schedule = model::NoiseSpec::Schedule;

double largest(const Tensor& tensor) {
  return tensor.abs().max().item<double>();
}

// --- schedules

TEST(NoiseSchedule, LinearIsThatOfDdpm) {
  const Noise noise({.schedule = Schedule::kLinear, .steps = 1000});
  EXPECT_NEAR(noise.betas().front(), 1e-4, 1e-18);
  EXPECT_NEAR(noise.betas().back(), 0.02, 1e-15);
  EXPECT_NEAR(noise.betas()[500], 1e-4 + (0.02 - 1e-4) * 500 / 999, 1e-15);
  EXPECT_NEAR(noise.alphas_cumprod().back(), 4.0358e-05, 1e-9) << "of the paper's schedule";
  const Noise fewer({.schedule = Schedule::kLinear, .steps = 100});
  EXPECT_NEAR(fewer.betas().front(), 1e-3, 1e-17);
  EXPECT_NEAR(fewer.betas().back(), 0.2, 1e-14);
  const Noise few({.schedule = Schedule::kLinear, .steps = 5});
  EXPECT_EQ(few.betas().back(), 0.999);
}

TEST(NoiseSchedule, CosineIsThatOfImprovedDdpm) {
  constexpr std::int64_t kSteps = 400;
  const Noise noise({.schedule = Schedule::kCosine, .steps = kSteps});
  const auto f = [](double u) {
    return std::pow(std::cos((u + 0.008) / 1.008 * std::numbers::pi / 2), 2);
  };
  for (std::int64_t t = 0; t + 1 < kSteps; ++t) {
    const double expected = f(static_cast<double>(t + 1) / kSteps) / f(0);
    ASSERT_NEAR(noise.alpha_cumprod(t), expected, 1e-12) << t;
  }
  EXPECT_EQ(noise.betas().back(), 0.999);
}

TEST(NoiseSchedule, IsAProductThatFalls) {
  for (const Schedule schedule : {Schedule::kLinear, Schedule::kCosine}) {
    const Noise noise({.schedule = schedule, .steps = 1000});
    EXPECT_EQ(noise.alpha_cumprod(-1), 1);
    double product = 1;
    for (std::int64_t t = 0; t < 1000; ++t) {
      const double beta = noise.betas()[static_cast<std::size_t>(t)];
      ASSERT_GT(beta, 0);
      ASSERT_LE(beta, 0.999);
      product *= 1 - beta;
      ASSERT_EQ(noise.alpha_cumprod(t), product);
    }
  }
  EXPECT_THROW(Noise({.steps = 1}), ConfigError);
  EXPECT_THROW(Noise({.steps = 10}).alpha_cumprod(10), InvariantError);
}

// --- draws

TEST(NoiseDraws, TimesAreUniformAndThoseOfTheSample) {
  constexpr std::int64_t kSamples = 100000;
  const Noise noise({.steps = 10});
  const Tensor times = noise.draw_times({0, kSamples}, key_of(1, "times"), at::kFloat, at::kCPU);
  for (int t = 0; t < 10; ++t) {
    const double count = times.eq(t).sum().item<double>();
    EXPECT_NEAR(count, kSamples / 10.0, 5 * std::sqrt(kSamples * 0.09)) << t;
  }
  const Tensor part = noise.draw_times({700, 800}, key_of(1, "times"), at::kDouble, at::kCPU);
  EXPECT_TRUE(at::equal(part, times.narrow(0, 700, 100).to(at::kDouble)));
  EXPECT_FALSE(at::equal(noise.draw_times({0, 100}, key_of(2, "times"), at::kFloat, at::kCPU),
                         times.narrow(0, 0, 100)));
  // Neighbours are not related.
  const Tensor centred = times.sub(4.5);
  EXPECT_LT(std::abs(centred.narrow(0, 0, kSamples - 1)
                         .mul(centred.narrow(0, 1, kSamples - 1))
                         .mean()
                         .item<double>()),
            5 * 8.25 / std::sqrt(kSamples));
  const Tensor dry = noise.draw_times({0, 7}, key_of(1, "times"), at::kFloat, at::kMeta);
  EXPECT_TRUE(dry.is_meta());
  EXPECT_EQ(dry.numel(), 7);
}

Tensor noise_of(std::int64_t first, std::int64_t samples, at::ScalarType type = at::kDouble) {
  return model::draw_noise(at::empty({samples, 49, 3}, type), first, key_of(4, "noise"));
}

TEST(NoiseDraws, NoiseIsThatOfTheSample) {
  const Tensor all = noise_of(0, 300);
  EXPECT_TRUE(at::equal(noise_of(37, 5), all.narrow(0, 37, 5)));
  EXPECT_TRUE(at::equal(noise_of(37, 5, at::kFloat), all.narrow(0, 37, 5).to(at::kFloat)));
  const double error = 1 / std::sqrt(static_cast<double>(all.numel()));
  EXPECT_LT(std::abs(all.mean().item<double>()), 4 * error);
  EXPECT_NEAR(all.square().mean().item<double>(), 1, 4 * std::sqrt(2.0) * error);
  EXPECT_NEAR(all.pow(4).mean().item<double>(), 3, 4 * std::sqrt(96.0) * error);
  const Tensor neighbours = all.narrow(0, 0, 299).mul(all.narrow(0, 1, 299));
  EXPECT_LT(std::abs(neighbours.mean().item<double>()), 4 * error);
}

TEST(NoiseDraws, AddedNoiseIsTheDrawnOne) {
  const Noise noise({.steps = 50});
  const Key key = key_of(4, "noise");
  const Tensor times = noise.draw_times({11, 31}, key_of(1, "times"), at::kDouble, at::kCPU);
  const Tensor images = at::rand({20, 49, 3}, at::kDouble).mul(2).sub(1);
  const Tensor abar = at::empty({20, 1, 1}, at::kDouble);
  for (std::int64_t i = 0; i < 20; ++i) {
    const auto t = static_cast<std::int64_t>(times[i].item<double>());
    abar[i].fill_(noise.alpha_cumprod(t));
  }
  const Tensor expected =
      images.mul(abar.sqrt()).add(noise_of(11, 20).mul(abar.neg().add(1).sqrt()));
  EXPECT_LT(largest(noise.add_noise(images, times, 11, key, at::kDouble).sub(expected)), 1e-15);
  const Tensor rough =
      noise.add_noise(images.to(at::kFloat), times.to(at::kFloat), 11, key, at::kFloat);
  EXPECT_LT(largest(rough.sub(expected)), 1e-6);
  const Tensor rougher =
      noise.add_noise(images.to(at::kFloat), times.to(at::kFloat), 11, key, at::kBFloat16);
  EXPECT_TRUE(at::equal(rougher, rough.to(at::kBFloat16)));
  const Tensor meta = at::empty({20, 49, 3}, at::TensorOptions(at::kFloat).device(at::kMeta));
  const Tensor dry = noise.add_noise(meta, at::empty({20}, meta.options()), 11, key, at::kBFloat16);
  EXPECT_TRUE(dry.is_meta());
  EXPECT_EQ(dry.scalar_type(), at::kBFloat16);
  EXPECT_EQ(dry.sizes(), images.sizes());
  EXPECT_TRUE(model::draw_noise(meta, 0, key).is_meta());
}

TEST(NoiseDraws, ATrainingStepHasItsOwnAndValidationsHaveTheSame) {
  const auto keys = [](std::uint64_t seed, std::uint64_t step, bool training) {
    return model::NoiseKeys(seed, {.step = step}, training);
  };
  EXPECT_FALSE(keys(1, 1, true).noise == keys(1, 2, true).noise);
  EXPECT_FALSE(keys(1, 1, true).times == keys(1, 2, true).times);
  EXPECT_FALSE(keys(1, 1, true).noise == keys(2, 1, true).noise);
  EXPECT_FALSE(keys(1, 1, true).noise == keys(1, 1, true).times);
  EXPECT_TRUE(keys(1, 1, false).noise == keys(1, 2, false).noise);
  EXPECT_TRUE(keys(1, 1, false).times == keys(1, 2, false).times);
  EXPECT_FALSE(keys(1, 0, true).noise == keys(1, 0, false).noise);
}

// --- samplers

TEST(Denoise, TimesAreEvenlySpacedAndBeginWithTheLast) {
  using Times = std::vector<std::int64_t>;
  EXPECT_EQ(model::sampling_times(1000, 4), (Times{999, 749, 499, 249}));
  EXPECT_EQ(model::sampling_times(7, 3), (Times{6, 3, 1}));
  EXPECT_EQ(model::sampling_times(5, 5), (Times{4, 3, 2, 1, 0}));
  EXPECT_EQ(model::sampling_times(5, 1), (Times{4}));
  EXPECT_THROW(model::sampling_times(5, 6), InvariantError);
}

/// An image, its noise, and the image with the noise.
struct Noised {
  Tensor image = at::rand({6, 49, 3}, at::kDouble).mul(1.8).sub(0.9);
  Tensor noise = at::randn({6, 49, 3}, at::kDouble);

  Tensor at_level(double abar) const {
    return image.mul(std::sqrt(abar)).add(noise, std::sqrt(1 - abar));
  }
};

TEST(Denoise, DdimFollowsTheNoiseThatIsThere) {
  const Noised x;
  const Tensor next = model::ddim_step(x.at_level(0.3), x.noise, 0.3, 0.6);
  EXPECT_LT(largest(next.sub(x.at_level(0.6))), 1e-14);
  EXPECT_LT(largest(model::ddim_step(x.at_level(0.3), x.noise, 0.3, 1).sub(x.image)), 1e-14);
}

TEST(Denoise, DdimBringsTheImageToItsRangeAndTakesTheNoiseAnew) {
  const Noised x;
  const double abar = 0.02;
  const double next = 0.1;
  const Tensor images = x.at_level(abar);
  const Tensor wrong = at::randn({6, 49, 3}, at::kDouble);
  Tensor image = (images - std::sqrt(1 - abar) * wrong) / std::sqrt(abar);
  EXPECT_GT(largest(image), 1.0) << "the case is not one where it matters";
  image = at::minimum(at::maximum(image, at::full({}, -1.0, at::kDouble)),
                      at::full({}, 1.0, at::kDouble));
  const Tensor rest = (images - std::sqrt(abar) * image) / std::sqrt(1 - abar);
  const Tensor expected = std::sqrt(next) * image + std::sqrt(1 - next) * rest;
  EXPECT_LT(largest(model::ddim_step(images, wrong, abar, next).sub(expected)), 1e-13);
}

/// Equations 6 and 7 of DDPM, for two neighbouring steps of a schedule.
TEST(Denoise, DdpmDrawsFromThePosterior) {
  const Noise noise({.steps = 1000});
  const Noised x;
  for (const std::int64_t t : {1, 300, 998}) {
    const double beta = noise.betas()[static_cast<std::size_t>(t)];
    const double abar = noise.alpha_cumprod(t);
    const double before = noise.alpha_cumprod(t - 1);
    const Tensor images = x.at_level(abar);
    const Tensor drawn = at::randn({6, 49, 3}, at::kDouble);
    const Tensor mean = std::sqrt(before) * beta / (1 - abar) * x.image +
                        std::sqrt(1 - beta) * (1 - before) / (1 - abar) * images;
    const double deviation = std::sqrt((1 - before) / (1 - abar) * beta);
    const Tensor found = model::ddpm_step(images, x.noise, abar, before, drawn);
    EXPECT_LT(largest(found.sub(mean + deviation * drawn)), 1e-11) << t;
  }
  const Tensor last = model::ddpm_step(x.at_level(0.9), x.noise, 0.9, 1, at::full({}, NAN));
  EXPECT_LT(largest(last.sub(x.image)), 1e-13) << "the last step draws nothing";
}

}  // namespace
}  // namespace fourfold::test
