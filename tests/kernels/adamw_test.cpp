// AdamW in one loop against the textbook, operation by operation.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/adamw.hpp"

#include <cmath>

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/support/every_way.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;

/// As in the paper: decay, moments, corrections, update.
void textbook(Tensor& value, const Tensor& gradient, Tensor& mean, Tensor& square,
              const kernels::AdamStep& s) {
  const Tensor g = at::mul(gradient, s.gradient_scale);
  value.sub_(at::mul(value, s.rate * s.decay));
  mean.mul_(s.beta1).add_(g, 1 - s.beta1);
  square.mul_(s.beta2).add_(at::mul(g, g), 1 - s.beta2);
  const Tensor corrected_mean = mean.div(1 - std::pow(s.beta1, static_cast<double>(s.step)));
  const Tensor corrected_square = square.div(1 - std::pow(s.beta2, static_cast<double>(s.step)));
  value.sub_(corrected_mean.div(corrected_square.sqrt().add_(s.epsilon)).mul_(s.rate));
}

double largest_difference(const Tensor& a, const Tensor& b) {
  return at::sub(a, b).abs().max().item<double>();
}

void compare(at::ScalarType type, double tolerance) {
  const std::int64_t n = 1037;
  Tensor value = at::randn({n}, type);
  Tensor mean = at::zeros({n}, type);
  Tensor square = at::zeros({n}, type);
  Tensor value2 = value.clone();
  Tensor mean2 = mean.clone();
  Tensor square2 = square.clone();
  kernels::AdamStep step{.rate = 0.01, .decay = 0.1, .gradient_scale = 0.7};
  for (step.step = 1; step.step <= 10; ++step.step) {
    const Tensor gradient = at::randn({n}, type);
    kernels::adamw(value, gradient, mean, square, value, step);
    textbook(value2, gradient, mean2, square2, step);
    ASSERT_LE(largest_difference(value, value2), tolerance) << "step " << step.step;
    ASSERT_LE(largest_difference(mean, mean2), tolerance);
    ASSERT_LE(largest_difference(square, square2), tolerance);
  }
}

TEST(AdamW, EqualsTheTextbook) {
  in_every_way(Choice::kVectors, [](bool) {
    compare(at::kDouble, 1e-14);
    compare(at::kFloat, 2e-6);
  });
}

TEST(AdamW, KeepsTheMeanOfTheNewValues) {
  in_every_way(Choice::kVectors, [](bool) {
    for (const auto type : {at::kDouble, at::kFloat}) {
      const std::int64_t n = 1037;
      const Tensor value = at::randn({n}, type);
      const Tensor mean = at::zeros({n}, type);
      const Tensor square = at::zeros({n}, type);
      const Tensor value_mean = value.clone();
      Tensor expected = value.clone();
      kernels::AdamStep step{.rate = 0.01, .decay = 0.1, .mean_decay = 0.75};
      for (step.step = 1; step.step <= 5; ++step.step) {
        kernels::adamw(value, at::randn({n}, type), mean, square, value, step, value_mean);
        expected = expected.mul(0.75).add(value, 0.25);
        ASSERT_LE(largest_difference(value_mean, expected), type == at::kDouble ? 1e-15 : 1e-6);
      }
    }
  });
}

TEST(AdamW, ExchangesValuesAndTheirMean) {
  in_every_way(Choice::kVectors, [](bool) {
    const Tensor a = at::randn({1037}, at::kFloat);
    const Tensor b = at::randn({1037}, at::kFloat);
    const Tensor before_a = a.clone();
    const Tensor before_b = b.clone();
    const Tensor copy = at::zeros({1037}, at::kBFloat16);
    kernels::exchange(a, b, copy);
    EXPECT_TRUE(at::equal(a, before_b));
    EXPECT_TRUE(at::equal(b, before_a));
    EXPECT_TRUE(at::equal(copy, before_b.to(at::kBFloat16)));
    kernels::exchange(a, b, a);
    EXPECT_TRUE(at::equal(a, before_a));
    EXPECT_TRUE(at::equal(b, before_b));
  });
}

TEST(AdamW, SumOfSquares) {
  const Tensor values = at::randn({10007}, at::kFloat);
  const double expected = values.to(at::kDouble).square().sum().item<double>();
  in_every_way(Choice::kVectors, [&](bool) {
    const Tensor sum = at::zeros({}, at::kDouble).add_(7);
    kernels::add_squares(values, sum);
    EXPECT_NEAR(sum.item<double>(), 7 + expected, 1e-9 * expected);
  });
  const Tensor of_nothing = at::zeros({}, at::kDouble);
  kernels::add_squares(at::empty({0}, at::kFloat), of_nothing);
  EXPECT_EQ(of_nothing.item<double>(), 0);
}

}  // namespace
}  // namespace fourfold::test
