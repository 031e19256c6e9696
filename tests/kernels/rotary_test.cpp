// Rotary embedding against Hugging Face's formulas, written with plain libtorch in double.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/rotary.hpp"

#include <cmath>
#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/where.h>

#include "fourfold/base/error.hpp"

#include "tests/kernels/support.hpp"

namespace fourfold::test {
namespace {

using kernels::RotaryHeads;
using kernels::RotaryScaling;
using kernels::Rotation;

/// transformers' _compute_llama3_parameters.
Tensor llama3(const Tensor& inv_freq, const RotaryScaling& s) {
  const auto old_context = static_cast<double>(s.original_max_position_embeddings);
  const double low = old_context / s.low_freq_factor;
  const double high = old_context / s.high_freq_factor;
  const Tensor wavelen = 2 * std::numbers::pi / inv_freq;
  const Tensor slowed = at::where(wavelen > low, inv_freq / s.factor, inv_freq);
  const Tensor smooth =
      (old_context / wavelen - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  const Tensor smoothed = (1 - smooth) * slowed / s.factor + smooth * slowed;
  const Tensor medium = at::logical_and(wavelen >= high, wavelen <= low);
  return at::where(medium, smoothed, slowed);
}

/// The angles, context × (head_size / 2).
Tensor angles_of(std::int64_t context, std::int64_t head_size, double theta,
                 const std::optional<RotaryScaling>& scaling) {
  const Tensor exponents = at::arange(0, head_size, 2, at::kDouble) / head_size;
  Tensor inv_freq = 1 / at::pow(at::Scalar(theta), exponents);
  if (scaling) inv_freq = llama3(inv_freq, *scaling);
  return at::outer(at::arange(context, at::kDouble), inv_freq);
}

/// x·cos + rotate_half(x)·sin, with x of shape (...) × positions × head_size.
Tensor rotated(const Tensor& x, const Tensor& angles) {
  const std::int64_t half = x.size(-1) / 2;
  const Tensor twice = at::cat({angles, angles}, 1);
  const Tensor turned = at::cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
  return x * at::cos(twice) + turned * at::sin(twice);
}

TEST(RotaryTable, HasTheCosinesAndSinesOfHuggingFace) {
  const RotaryScaling llama31;  // its defaults
  const RotaryScaling other{4, 1.5, 3, 64};
  for (const auto& scaling :
       {std::optional<RotaryScaling>(), std::optional(llama31), std::optional(other)}) {
    for (const std::int64_t head_size : {2, 10, 64, 128}) {
      const Tensor angles = angles_of(300, head_size, 500000, scaling);
      const Tensor expected = at::cat({at::cos(angles), at::sin(angles)}, 1);
      const Tensor table = kernels::rotary_table(300, head_size, 500000, scaling, at::kDouble);
      EXPECT_LE(relative_difference(table, expected), 1e-12) << head_size;
      const Tensor narrow = kernels::rotary_table(300, head_size, 500000, scaling, at::kFloat);
      EXPECT_TRUE(at::equal(narrow, table.to(at::kFloat))) << head_size;
    }
  }
}

/// Fast rotations are unchanged, slow ones are slower by the factor, and some lie in between.
TEST(RotaryTable, ScalingChangesSlowRotationsOnly) {
  const Tensor plain = kernels::rotary_table(2, 128, 500000, std::nullopt, at::kDouble)[1];
  const Tensor scaled = kernels::rotary_table(2, 128, 500000, RotaryScaling{}, at::kDouble)[1];
  const auto speed = [](const Tensor& row, std::int64_t pair) {
    return std::asin(row[64 + pair].item<double>());
  };
  EXPECT_EQ(speed(scaled, 10), speed(plain, 10));
  EXPECT_NEAR(speed(scaled, 63) * 8 / speed(plain, 63), 1, 1e-12);
  int between = 0;
  for (std::int64_t pair = 1; pair < 64; ++pair) {
    const double ratio = speed(scaled, pair) / speed(plain, pair);
    between += ratio > 0.1251 && ratio < 0.9999 ? 1 : 0;
  }
  EXPECT_GT(between, 3);
}

/// Heads that are groups of two with other columns around them, as queries beside keys and values.
constexpr std::int64_t kSamples = 3;
constexpr std::int64_t kColumns = 5 + 3 * 44;

RotaryHeads heads_of(std::int64_t head_size, std::int64_t positions, std::int64_t first_position) {
  return {.columns = {.first = 5, .stride = 44, .group = 2},
          .heads = 5,
          .head_size = head_size,
          .positions = positions,
          .first_position = first_position};
}

/// The rotation of every head, one after the other, in a copy.
Tensor expected_of(const Tensor& matrix, const RotaryHeads& which, const Tensor& angles) {
  Tensor result = matrix.to(at::kDouble).clone();
  for (std::int64_t h = 0; h < which.heads; ++h) {
    const std::int64_t begin = 5 + h / 2 * 44 + h % 2 * which.head_size;
    Tensor head = result.narrow(1, begin, which.head_size);
    const Tensor samples = head.reshape({kSamples, which.positions, which.head_size});
    head.copy_(rotated(samples, angles).reshape(head.sizes()));
  }
  return result;
}

TEST(RotateHeads, EqualsRotateHalf) {
  for (const std::int64_t head_size : {2, 6, 22}) {
    for (const std::int64_t first_position : {0, 4}) {
      const RotaryHeads which = heads_of(head_size, 7, first_position);
      in_every_type_and_way([&](at::ScalarType type, double tolerance) {
        const auto wide = kernels::statistics_type(type);
        const Tensor table = kernels::rotary_table(11, head_size, 100, std::nullopt, wide);
        const Tensor angles =
            angles_of(11, head_size, 100, std::nullopt).narrow(0, first_position, 7);
        const Tensor matrix = random({kSamples * 7, kColumns}, type);
        const Tensor forward = matrix.clone();
        kernels::rotate_heads(forward, which, table, Rotation::kForward);
        EXPECT_LE(relative_difference(forward, expected_of(matrix, which, angles)), tolerance);
        // The gradient of a rotation is the rotation back.
        const Tensor backward = matrix.clone();
        kernels::rotate_heads(backward, which, table, Rotation::kBackward);
        EXPECT_LE(relative_difference(backward, expected_of(matrix, which, -angles)), tolerance);
        if (type == at::kDouble) {
          kernels::rotate_heads(forward, which, table, Rotation::kBackward);
          EXPECT_LE(relative_difference(forward, matrix), 1e-14);
        }
      });
    }
  }
}

/// The backward pass against libtorch's gradient of the forward formula.
TEST(RotateHeads, BackwardIsTheGradient) {
  const Tensor x = random({2, 9, 16}, at::kDouble);
  const Tensor upstream = random({2, 9, 16}, at::kDouble);
  const Tensor leaf = leaf_of(x);
  rotated(leaf, angles_of(9, 16, 10000, std::nullopt)).backward(upstream);
  const Tensor gradient = upstream.reshape({18, 16}).clone();
  kernels::rotate_heads(gradient, {.heads = 1, .head_size = 16, .positions = 9},
                        kernels::rotary_table(9, 16, 10000, std::nullopt, at::kDouble),
                        Rotation::kBackward);
  EXPECT_LE(relative_difference(gradient, leaf.grad().view({18, 16})), 1e-12);
}

/// A part of the rows' columns is enough: rows may lie apart.
TEST(RotateHeads, TakesAViewWhoseRowsLieApart) {
  const Tensor table = kernels::rotary_table(6, 8, 10000, std::nullopt, at::kFloat);
  const Tensor whole = random({6, 40}, at::kFloat);
  const Tensor expected = whole.clone();
  kernels::rotate_heads(expected,
                        {.columns = {.first = 16}, .heads = 1, .head_size = 8, .positions = 6},
                        table, Rotation::kForward);
  kernels::rotate_heads(whole.narrow(1, 16, 8), {.heads = 1, .head_size = 8, .positions = 6}, table,
                        Rotation::kForward);
  EXPECT_TRUE(at::equal(whole, expected));
}

TEST(RotateHeads, RefusesWhatDoesNotFit) {
  const Tensor table = kernels::rotary_table(6, 8, 10000, std::nullopt, at::kFloat);
  const Tensor matrix = at::zeros({12, 16});
  const auto rotate = [&](const RotaryHeads& which) {
    kernels::rotate_heads(matrix, which, table, Rotation::kForward);
  };
  const RotaryHeads good{.columns = {.stride = 8}, .heads = 2, .head_size = 8, .positions = 6};
  rotate(good);
  RotaryHeads bad = good;
  bad.heads = 3;
  EXPECT_THROW(rotate(bad), InvariantError) << "behind the last column";
  bad = good;
  bad.first_position = 1;
  EXPECT_THROW(rotate(bad), InvariantError) << "behind the end of the table";
  bad = good;
  bad.positions = 5;
  EXPECT_THROW(rotate(bad), InvariantError) << "half a sample";
  EXPECT_THROW(kernels::rotary_table(6, 7, 10000, std::nullopt, at::kFloat), InvariantError);
}

TEST(RotateHeads, DoesNothingWithMetaTensors) {
  const auto meta = at::TensorOptions(at::kFloat).device(at::kMeta);
  const Tensor table = kernels::rotary_table(6, 8, 10000, std::nullopt, meta);
  EXPECT_TRUE(table.is_meta());
  kernels::rotate_heads(at::empty({6, 8}, meta), {.heads = 1, .head_size = 8, .positions = 6},
                        table, Rotation::kForward);
}

}  // namespace
}  // namespace fourfold::test
