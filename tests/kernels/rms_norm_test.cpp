// RMS norm, of whole rows and of rows whose columns are split, against plain libtorch in double.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros_like.h>

#include "fourfold/grid/block.hpp"
#include "fourfold/kernels/norm.hpp"

#include "tests/kernels/support.hpp"

namespace fourfold::test {
namespace {

constexpr double kEpsilon = 1e-3;  // large enough to be seen
constexpr std::int64_t kRows = 13;

struct Problem {
  Problem(std::int64_t width, at::ScalarType type)
      : x(random({kRows, width}, type)),
        dy(random({kRows, width}, type)),
        scale(random({width}, kernels::statistics_type(type))) {}
  Tensor x;
  Tensor dy;
  Tensor scale;
};

struct Result {
  Tensor y;
  Tensor dx;
  Tensor dscale;
};

Result plain(const Problem& p) {
  const Tensor x = leaf_of(p.x);
  const Tensor scale = leaf_of(p.scale);
  const Tensor y = x * (x.square().mean(1, true) + kEpsilon).rsqrt() * scale;
  y.backward(p.dy.to(at::kDouble));
  return {y.detach(), x.grad(), scale.grad()};
}

Result whole(const Problem& p) {
  Tensor rstd = at::empty({kRows}, p.scale.options());
  Result result{at::empty_like(p.x), at::empty_like(p.x), at::zeros_like(p.scale)};
  kernels::rms_whole(p.x, p.scale, kEpsilon, rstd, result.y);
  kernels::rms_backward_whole(p.dy, p.x, rstd, p.scale, result.dscale, result.dx);
  return result;
}

/// As ranks do it that have the columns [0, cut) and [cut, width): they add their sums.
Result of_two_parts(const Problem& p, std::int64_t cut) {
  const std::int64_t width = p.x.size(1);
  const std::vector<grid::Range> parts = {{0, cut}, {cut, width}};
  const auto columns = [](const Tensor& all, const grid::Range& part) {
    return all.narrow(-1, part.begin, part.size()).contiguous();
  };
  Tensor squares = at::zeros({kRows}, p.scale.options());
  for (const auto& part : parts) {
    Tensor own = at::empty_like(squares);
    kernels::rms_statistics(columns(p.x, part), own);
    squares.add_(own);
  }
  std::vector<Tensor> y;
  std::vector<Tensor> dscale;
  Tensor rstd = at::empty_like(squares);
  Tensor sums = at::zeros_like(squares);
  for (const auto& part : parts) {
    const Tensor x = columns(p.x, part);
    const Tensor scale = columns(p.scale, part);
    y.push_back(at::empty_like(x));
    kernels::rms_apply(x, squares, width, kEpsilon, scale, rstd, y.back());
    Tensor own = at::empty_like(squares);
    dscale.push_back(at::zeros_like(scale));
    kernels::rms_backward_sums(columns(p.dy, part), x, rstd, scale, own, dscale.back());
    sums.add_(own);
  }
  std::vector<Tensor> dx;
  for (const auto& part : parts) {
    const Tensor x = columns(p.x, part);
    dx.push_back(at::empty_like(x));
    kernels::rms_backward_apply(columns(p.dy, part), x, rstd, columns(p.scale, part), sums, width,
                                dx.back());
  }
  return {at::cat(y, 1), at::cat(dx, 1), at::cat(dscale)};
}

void expect_near(const Result& found, const Result& expected, double tolerance) {
  EXPECT_LE(relative_difference(found.y, expected.y), tolerance);
  EXPECT_LE(relative_difference(found.dx, expected.dx), tolerance);
  EXPECT_LE(relative_difference(found.dscale, expected.dscale), tolerance);
}

TEST(RmsNorm, OfWholeRowsEqualsLibtorch) {
  // (With one column the gradient is a difference of almost equal numbers.)
  for (const std::int64_t width : {5, 8, 109, 256}) {
    in_every_type_and_way([&](at::ScalarType type, double tolerance) {
      const Problem problem(width, type);
      expect_near(whole(problem), plain(problem), tolerance);
    });
  }
}

TEST(RmsNorm, OfPartsOfRowsEqualsLibtorch) {
  for (const std::int64_t cut : {1, 54, 100}) {
    in_every_type_and_way([&](at::ScalarType type, double tolerance) {
      const Problem problem(109, type);
      expect_near(of_two_parts(problem, cut), plain(problem), tolerance);
    });
  }
}

/// The statistics may be written where the sums of squares are.
TEST(RmsNorm, DeviationsReplaceTheSquares) {
  const Problem problem(109, at::kFloat);
  Tensor squares = at::empty({kRows}, at::kFloat);
  kernels::rms_statistics(problem.x, squares);
  Tensor rstd = at::empty_like(squares);
  Tensor y = at::empty_like(problem.x);
  Tensor again = at::empty_like(problem.x);
  kernels::rms_apply(problem.x, squares, 109, kEpsilon, problem.scale, rstd, y);
  kernels::rms_apply(problem.x, squares, 109, kEpsilon, problem.scale, squares, again);
  EXPECT_TRUE(at::equal(squares, rstd));
  EXPECT_TRUE(at::equal(again, y));
}

TEST(RmsNorm, AddsToTheGradientOfTheScale) {
  const Problem problem(7, at::kDouble);
  const Result once = whole(problem);
  Tensor rstd = at::empty({kRows}, at::kDouble);
  Tensor y = at::empty_like(problem.x);
  kernels::rms_whole(problem.x, problem.scale, kEpsilon, rstd, y);
  Tensor twice = once.dscale.clone();
  Tensor dx = at::empty_like(problem.x);
  kernels::rms_backward_whole(problem.dy, problem.x, rstd, problem.scale, twice, dx);
  EXPECT_LE(relative_difference(twice, once.dscale * 2), 1e-14);
}

TEST(RmsNorm, DoesNothingWithMetaTensors) {
  const Tensor x = at::empty({kRows, 6}, at::TensorOptions(at::kBFloat16).device(at::kMeta));
  Tensor vector = at::empty({6}, at::TensorOptions(at::kFloat).device(at::kMeta));
  Tensor rows = at::empty({kRows}, at::TensorOptions(at::kFloat).device(at::kMeta));
  Tensor out = at::empty_like(x);
  kernels::rms_statistics(x, rows);
  kernels::rms_apply(x, rows, 6, kEpsilon, vector, rows, out);
  kernels::rms_backward_sums(x, x, rows, vector, rows, vector);
  kernels::rms_backward_apply(x, x, rows, vector, rows, 6, out);
  kernels::rms_whole(x, vector, kEpsilon, rows, out);
  kernels::rms_backward_whole(x, x, rows, vector, vector, out);
}

}  // namespace
}  // namespace fourfold::test
