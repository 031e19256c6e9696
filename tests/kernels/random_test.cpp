// Random numbers: the same whatever part of the whole a rank asks for, and random enough.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/random.hpp"

#include <cmath>

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;
using grid::Axis;
using grid::Block;
using grid::Layout;
using grid::Range;
using grid::Shape;
using kernels::fill_dropout_mask;
using kernels::fill_dropout_run;
using kernels::fill_normal;
using kernels::Key;
using kernels::key_of;
using kernels::Window2;

Layout split_over(const grid::Axes& axes) {
  return Layout(std::vector<grid::Axes>{axes});
}
Layout split_over(const grid::Axes& rows, const grid::Axes& columns) {
  return Layout(std::vector<grid::Axes>{rows, columns});
}

Tensor whole_of(const Shape& shape, Key key, at::ScalarType type = at::kDouble) {
  Tensor whole = at::empty(shape, type);
  Block block;
  for (const std::int64_t size : shape) block.ranges.push_back({0, size});
  fill_normal(whole, shape, block, key, 1);
  return whole;
}

/// The part of `whole` in the block, and zeros up to the shape of the shard.
Tensor padded_block(const Tensor& whole, const Block& block, const Shape& shard) {
  Tensor result = at::zeros(shard, whole.options());
  Tensor to = result;
  Tensor from = whole;
  for (std::size_t d = 0; d < shard.size(); ++d) {
    const Range& range = block.ranges[d];
    to = to.narrow(static_cast<std::int64_t>(d), 0, range.size());
    from = from.narrow(static_cast<std::int64_t>(d), range.begin, range.size());
  }
  to.copy_(from);
  return result;
}

void expect_blocks(const Shape& shape, const Layout& layout, at::ScalarType type) {
  const Key key = key_of(3, "weight");
  const Tensor whole = whole_of(shape, key, type);
  const grid::Grid grid({.x = 2, .y = 3, .z = 4});
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const Block block = layout.block(shape, grid, grid.coord_of(rank));
    const Shape local = layout.shard_shape(shape, grid);
    Tensor shard = at::full(local, 9, type);
    fill_normal(shard, shape, block, key, 1);
    EXPECT_TRUE(at::equal(shard, padded_block(whole, block, local)))
        << layout << " rank " << rank << " of " << type;
  }
}

TEST(FillNormal, BlocksAreThoseOfTheWhole) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    expect_blocks({37, 24}, split_over({Axis::kY, Axis::kX, Axis::kZ}, {}), type);
    expect_blocks({30, 15}, split_over({Axis::kY, Axis::kZ}, Axis::kX), type);  // odd beginnings
    expect_blocks({5, 7}, split_over(Axis::kZ, {Axis::kX, Axis::kY}), type);    // some empty
    expect_blocks({31}, split_over(grid::Axes{Axis::kX, Axis::kZ}), type);
  }
}

TEST(FillNormal, FloatIsDoubleRounded) {
  const Key key = key_of(3, "weight");
  EXPECT_TRUE(
      at::equal(whole_of({50, 21}, key, at::kFloat), whole_of({50, 21}, key).to(at::kFloat)));
}

TEST(FillNormal, HasTheMomentsOfTheNormalDistribution) {
  constexpr std::int64_t kCount = 200000;
  const Tensor x = whole_of({kCount}, key_of(1, "moments"));
  const double error = 1 / std::sqrt(static_cast<double>(kCount));  // of the mean
  EXPECT_LT(std::abs(x.mean().item<double>()), 4 * error);
  EXPECT_NEAR(x.square().mean().item<double>(), 1, 4 * std::sqrt(2.0) * error);
  EXPECT_NEAR(x.pow(3).mean().item<double>(), 0, 4 * std::sqrt(15.0) * error);
  EXPECT_NEAR(x.pow(4).mean().item<double>(), 3, 4 * std::sqrt(96.0) * error);
  // Neighbours, of which pairs share their bits, and elements that are a row apart.
  for (const std::int64_t lag : {1, 2, 3, 64}) {
    const Tensor product = x.narrow(0, 0, kCount - lag).mul(x.narrow(0, lag, kCount - lag));
    EXPECT_LT(std::abs(product.mean().item<double>()), 4 * error) << "lag " << lag;
  }
}

TEST(FillNormal, HasTheDeviationAskedFor) {
  Tensor small = at::empty({1000}, at::kDouble);
  fill_normal(small, {1000}, {{{0, 1000}}}, key_of(1, "moments"), 0.02);
  EXPECT_LT(small.sub(whole_of({1000}, key_of(1, "moments")).mul(0.02)).abs().max().item<double>(),
            1e-16);
}

/// The largest correlation of two of the tensors.
double correlation(const Tensor& a, const Tensor& b) {
  return std::abs(a.mul(b).mean().item<double>());
}

TEST(KeyOf, OtherNamesSeedsAndNumbersGiveUnrelatedNumbers) {
  constexpr std::int64_t kCount = 10000;
  const Key key = key_of(1, "h.0.weight");
  std::vector<Key> keys = {key,           key_of(1, "h.1.weight"), key_of(1, "h.0.weighu"),
                           key_of(1, ""), key_of(2, "h.0.weight"), key_of(0, "h.0.weight")};
  for (const std::uint64_t step : {0U, 1U, 2U}) keys.push_back(key_of(key, step));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(keys[i], keys[j]) << i << " and " << j;
      EXPECT_LT(correlation(whole_of({kCount}, keys[i]), whole_of({kCount}, keys[j])), 0.05)
          << i << " and " << j;
    }
  }
  EXPECT_EQ(key_of(1, "h.0.weight"), key);
}

Tensor mask_of(const Window2& window, double p, double scale = 1,
               at::ScalarType type = at::kDouble) {
  Tensor mask = at::empty({window.rows.size(), window.columns.size()}, type);
  fill_dropout_mask(mask, window, key_of(8, "drop"), p, scale);
  return mask;
}

TEST(Dropout, DropsTheFractionAskedFor) {
  constexpr std::int64_t kRows = 500;
  constexpr std::int64_t kColumns = 401;
  for (const double p : {0.001, 0.1, 0.5, 0.9}) {
    const Tensor mask = mask_of({{0, kRows}, {0, kColumns}}, p);
    const double deviation = std::sqrt(p * (1 - p));
    EXPECT_NEAR(1 - mask.mean().item<double>(), p, 4 * deviation / std::sqrt(kRows * kColumns));
    // No row or column stands out, and neighbours are not related.
    const Tensor rows = mask.mean(1).sub(1 - p).abs();
    EXPECT_LT(rows.max().item<double>(), 5 * deviation / std::sqrt(kColumns) + 0.01);
    const Tensor columns = mask.mean(0).sub(1 - p).abs();
    EXPECT_LT(columns.max().item<double>(), 5 * deviation / std::sqrt(kRows) + 0.01);
    const Tensor centred = mask.sub(1 - p);
    for (const std::int64_t dim : {0, 1}) {
      const std::int64_t size = mask.size(dim) - 1;
      EXPECT_LT(correlation(centred.narrow(dim, 0, size), centred.narrow(dim, 1, size)),
                5 * p * (1 - p) / std::sqrt(kRows * kColumns) + 1e-4);
    }
  }
}

TEST(Dropout, ElementsAreTheSameInEveryWindow) {
  const Tensor whole = mask_of({{0, 40}, {0, 50}}, 0.3);
  for (const Window2& window :
       {Window2{{0, 40}, {0, 1}}, Window2{{3, 17}, {5, 23}}, Window2{{39, 40}, {1, 50}},
        Window2{{7, 7}, {0, 4}}, Window2{{10, 20}, {6, 6}}, Window2{{0, 5}, {47, 50}}}) {
    const Tensor expected = whole.narrow(0, window.rows.begin, window.rows.size())
                                .narrow(1, window.columns.begin, window.columns.size());
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      EXPECT_TRUE(at::equal(mask_of(window, 0.3, 1, type), expected.to(type)))
          << window.rows.begin << ":" << window.rows.end << " of " << type;
    }
  }
}

TEST(Dropout, RunsAreRowsOfTheMask) {
  const Tensor whole = mask_of({{0, 40}, {0, 50}}, 0.3, 1.25);
  Tensor run = at::empty({21}, at::kDouble);
  fill_dropout_run(run.data_ptr<double>(), 13, 7, 21, key_of(8, "drop"), 0.3, 1.25);
  EXPECT_TRUE(at::equal(run, whole[13].narrow(0, 7, 21)));
}

TEST(Dropout, KeepsEverythingOrScales) {
  EXPECT_EQ(mask_of({{0, 30}, {0, 30}}, 0).min().item<double>(), 1);
  const Tensor mask = mask_of({{0, 30}, {0, 30}}, 0.5, 2);
  EXPECT_EQ(mask.eq(0).sum().item<double>() + mask.eq(2).sum().item<double>(), 900);
}

}  // namespace
}  // namespace fourfold::test
