// Kernels in wide vectors against the same kernels for every processor. Random numbers have the
// same bits; elsewhere fused products and the order of sums may change the last places.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fourfold/kernels/cpu/softmax.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/gelu.hpp"
#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/kernels/norm.hpp"
#include "fourfold/kernels/random.hpp"
#include "fourfold/kernels/resample.hpp"
#include "fourfold/kernels/silu.hpp"
#include "fourfold/kernels/vocabulary.hpp"

#include "tests/support/every_way.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;
using Results = std::vector<Tensor>;

/// Odd sizes: vectors leave a remainder.
constexpr std::int64_t kRows = 13;
constexpr std::int64_t kWidth = 109;

/// A few units in the last place of the largest element, for sums of about a hundred; of bf16 one
/// unit, where a sum that differs in its last place is rounded to the other neighbour.
double tolerance_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return 1e-14;
    case at::kFloat:
      return 4e-6;
    default:
      return 0x1p-7;
  }
}

double difference(const Tensor& a, const Tensor& b) {
  const double size = b.to(at::kDouble).abs().max().item<double>();
  return at::sub(a.to(at::kDouble), b.to(at::kDouble)).abs().max().item<double>() / size;
}

/// Calls body(type), which returns the kernel's results, in every way. What it draws must be the
/// same each time.
template <class Body>
void expect_near_in_every_way(const Body& body) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    std::vector<Results> found;
    in_every_way(Choice::kVectors, [&](bool) {
      at::manual_seed(5);
      found.push_back(body(type));
    });
    for (std::size_t way = 1; way < found.size(); ++way) {
      for (std::size_t i = 0; i < found[0].size(); ++i) {
        EXPECT_LE(difference(found[way][i], found[0][i]), tolerance_of(type))
            << "result " << i << " in " << type;
      }
    }
  }
}

Tensor some(at::ScalarType type, std::int64_t rows = kRows, std::int64_t width = kWidth) {
  return at::randn({rows, width}, at::kDouble).to(type);
}

TEST(Vectors, Gelu) {
  expect_near_in_every_way([](at::ScalarType type) -> Results {
    const Tensor x = some(type);
    Tensor y = at::empty_like(x);
    Tensor dx = at::empty_like(x);
    kernels::gelu_forward(x, y);
    kernels::gelu_backward(some(type), x, dx);
    return {y, dx};
  });
}

TEST(Vectors, NormOfWholeRows) {
  expect_near_in_every_way([](at::ScalarType type) -> Results {
    const auto wide = kernels::statistics_type(type);
    const Tensor x = some(type);
    const Tensor scale = at::randn({kWidth}, wide);
    Tensor stats = at::empty({2, kRows}, wide);
    Tensor y = at::empty_like(x);
    kernels::norm_whole(x, scale, at::randn({kWidth}, wide), 1e-5, stats, y);
    Tensor dscale = at::zeros({kWidth}, wide);
    Tensor dshift = at::zeros({kWidth}, wide);
    Tensor dx = at::empty_like(x);
    kernels::norm_backward_whole(some(type), x, stats, scale, dscale, dshift, dx);
    return {stats, y, dscale, dshift, dx};
  });
}

TEST(Vectors, NormOfPartsOfRows) {
  expect_near_in_every_way([](at::ScalarType type) -> Results {
    const auto wide = kernels::statistics_type(type);
    const Tensor x = some(type);
    const Tensor dy = some(type);
    const Tensor scale = at::randn({kWidth}, wide);
    Tensor stats = at::empty({2, kRows}, wide);
    kernels::norm_statistics(x, stats);
    const Tensor mean = stats[0].contiguous();
    const Tensor rstd = at::full({kRows}, 0.9, wide);
    Tensor y = at::empty_like(x);
    kernels::norm_apply(x, mean, rstd, scale, at::randn({kWidth}, wide), y);
    Tensor sums = at::empty({2, kRows}, wide);
    Tensor dscale = at::zeros({kWidth}, wide);
    Tensor dshift = at::zeros({kWidth}, wide);
    kernels::norm_backward_sums(dy, x, mean, rstd, scale, sums, dscale, dshift);
    Tensor dx = at::empty_like(x);
    kernels::norm_backward_apply(dy, x, mean, rstd, scale, sums, kWidth, dx);
    return {stats, y, sums, dscale, dshift, dx};
  });
}

TEST(Vectors, Images) {
  expect_near_in_every_way([](at::ScalarType type) -> Results {
    const Tensor x = some(type);  // one line of pixels
    const Tensor dy = some(type);
    Tensor y = at::empty_like(x);
    kernels::silu_forward(x, y);
    Tensor dx = at::empty_like(x);
    kernels::silu_backward(dy, x, dx);
    Tensor large = at::empty({4 * kRows, kWidth}, x.options());
    kernels::spread_pixels(x, 1, kRows, 0.3, large);
    large.add_(at::randn(large.sizes()).to(type));
    Tensor small = at::empty_like(x);
    kernels::collect_pixels(large, 1, kRows, 0.7, small);
    return {y, dx, large, small};
  });
}

template <class A>
Results softmax(at::ScalarType type) {
  const kernels::cpu::ScoreBlock block{.first = kWidth - kRows, .rows = kRows, .keys = kWidth};
  const Tensor raw = some(type);
  const Tensor p = raw.clone();
  const Tensor logsum = at::empty({kRows}, type);
  const Tensor inverse = at::empty({kRows}, type);
  kernels::cpu::softmax_block(p.data_ptr<A>(), block, A(0.3), logsum.data_ptr<A>(),
                              inverse.data_ptr<A>());
  kernels::cpu::scale_rows(p.data_ptr<A>(), kRows, kWidth, kWidth, inverse.data_ptr<A>());
  const Tensor again = raw.clone();
  kernels::cpu::softmax_again(again.data_ptr<A>(), block, A(0.3), logsum.data_ptr<A>());
  const Tensor gradients = some(type);
  const Tensor dots = at::empty({kRows}, type);
  kernels::cpu::row_dots(gradients.data_ptr<A>(), p.data_ptr<A>(), kRows, kWidth, kWidth,
                         dots.data_ptr<A>());
  kernels::cpu::softmax_gradient(gradients.data_ptr<A>(), p.data_ptr<A>(), block, A(0.3),
                                 dots.data_ptr<A>());
  const Tensor product = at::empty_like(p);
  kernels::cpu::multiply_into(product.data_ptr<A>(), p.data_ptr<A>(), again.data_ptr<A>(),
                              p.numel());
  return {p, logsum, inverse, again, dots, gradients, product};
}

TEST(Vectors, SoftmaxOfAttention) {
  expect_near_in_every_way([](at::ScalarType type) -> Results {
    if (type == at::kDouble) return softmax<double>(type);
    if (type == at::kFloat) return softmax<float>(type);
    return {};  // attention computes bf16 in float
  });
}

TEST(Vectors, LossAndTable) {
  expect_near_in_every_way([](at::ScalarType type) -> Results {
    const auto wide = kernels::statistics_type(type);
    const grid::Range here{5, 5 + kWidth};
    Tensor logits = some(type);
    const Tensor targets = at::arange(kRows, at::kLong).mul(7);
    Tensor largest = at::empty({kRows}, wide);
    kernels::row_maxima(logits, kWidth - 2, largest);
    Tensor sums = at::empty({2, kRows}, wide);
    kernels::exponentials(logits, kWidth - 2, largest, targets, here, sums);
    const Tensor exponentials = logits.clone();
    kernels::softmax_loss_gradient(logits, sums, targets, here, 0.25);
    Tensor table = at::zeros({kWidth, 2 * kRows}, wide);
    kernels::add_to_rows(some(type, 2 * kRows, kRows).view({2, kRows, kRows}), targets, here,
                         table);
    return {largest, exponentials, sums, logits, table};
  });
}

TEST(Vectors, SumsOfMixedTypes) {
  expect_near_in_every_way([](at::ScalarType type) -> Results {
    const Tensor matrix = some(type);
    const Tensor sums = kernels::column_sums(matrix);
    const Tensor sum = some(kernels::statistics_type(type));
    kernels::add_to(sum, matrix);
    kernels::add_to_rows_of(matrix, sums);
    return {sums, sum, matrix};
  });
}

/// Weights and dropout are functions of the seed alone, on every processor.
TEST(Vectors, RandomNumbersHaveTheSameBits) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    std::vector<Results> found;
    in_every_way(Choice::kVectors, [&](bool) {
      at::manual_seed(5);
      const kernels::Key key = kernels::key_of(3, "numbers");
      Tensor weights = at::empty({kRows, kWidth}, type);
      kernels::fill_normal(weights, {kRows, kWidth}, {{{0, kRows}, {0, kWidth}}}, key, 0.02);
      const kernels::Window2 window{{2, 2 + kRows}, {3, 3 + kWidth}};
      Tensor mask = at::empty({kRows, kWidth}, type);
      kernels::fill_dropout_mask(mask, window, key, 0.3, 1 / 0.7);
      Tensor dropped = at::empty({kRows, kWidth}, type);
      kernels::apply_dropout(some(type), dropped, window, key, 0.3);
      found.push_back({weights, mask, dropped});
    });
    for (std::size_t way = 1; way < found.size(); ++way) {
      for (std::size_t i = 0; i < found[0].size(); ++i) {
        EXPECT_TRUE(at::equal(found[way][i], found[0][i])) << "result " << i << " in " << type;
      }
    }
  }
}

}  // namespace
}  // namespace fourfold::test
