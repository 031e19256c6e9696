// Numbers of channels, sums of columns and columns in pieces, narrow and wide, by every kind of
// vectors, against libtorch's own operations.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/channels.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "fourfold/kernels/column_pieces.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/mixed_sums.hpp"

#include "tests/support/every_way.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;

struct Shape {
  std::int64_t samples;
  std::int64_t pixels;
  std::int64_t channels;
};

/// Several pixels are computed as one line, as many as there are, none, or lines of one pixel.
const std::vector<Shape> kShapes = {{2, 12, 5},  {3, 49, 8},  {2, 64, 48}, {1, 784, 96},
                                    {2, 6, 256}, {2, 4, 300}, {1, 5, 700}, {3, 1, 16}};

double tolerance_of(at::ScalarType type) {
  return type == at::kDouble ? 1e-13 : type == at::kFloat ? 1e-5 : 0x1p-7;
}

void expect_near(const Tensor& found, const Tensor& expected, double tolerance, const char* what) {
  const double scale = std::max(1.0, expected.abs().max().item<double>());
  const double error = found.to(at::kDouble).sub(expected).abs().max().item<double>() / scale;
  EXPECT_LE(error, tolerance) << what;
}

/// Calls body(shape, type) in every way.
template <class Body>
void for_all(const Body& body) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(testing::Message()
                   << type << " " << shape.samples << " " << shape.pixels << " " << shape.channels);
      in_every_way(Choice::kVectors, [&](int) { body(shape, type); });
    }
  }
}

Tensor images(const Shape& s, at::ScalarType type) {
  return at::randn({s.samples * s.pixels, s.channels}).to(type);
}
Tensor numbers(const Shape& s, at::ScalarType type) {
  return at::randn({s.samples, s.channels}).to(kernels::statistics_type(type));
}
/// Samples × pixels × channels.
Tensor exact(const Tensor& rows, const Shape& s) {
  return rows.to(at::kDouble).view({s.samples, s.pixels, s.channels});
}
Tensor exact(const Tensor& of_channels) {
  return of_channels.to(at::kDouble).unsqueeze(1);
}

TEST(Channels, MomentsAreThoseOfPixels) {
  for_all([](const Shape& s, at::ScalarType type) {
    const Tensor x = images(s, type);
    Tensor mean = numbers(s, type);
    Tensor squares = numbers(s, type);
    kernels::channel_moments(x, mean, squares);
    const Tensor expected = exact(x, s).mean(1);
    const double near = tolerance_of(mean.scalar_type());
    expect_near(mean, expected, near, "mean");
    expect_near(squares, exact(x, s).sub(expected.unsqueeze(1)).square().sum(1), near, "squares");
  });
}

TEST(Channels, AreScaledAndGiveGradients) {
  for_all([](const Shape& s, at::ScalarType type) {
    for (const bool silu : {false, true}) {
      const Tensor x = images(s, type);
      const Tensor dy = images(s, type);
      const Tensor centre = numbers(s, type);
      const kernels::ChannelScale by{numbers(s, type), numbers(s, type), silu};
      const double near = tolerance_of(type);
      const Tensor z = exact(x, s).mul(exact(by.scale)).add(exact(by.shift));
      Tensor y = at::empty_like(x);
      kernels::scale_channels(x, by, y);
      expect_near(exact(y, s), silu ? z.mul(z.sigmoid()) : z, near, "scaled");

      const Tensor slope =
          silu ? z.sigmoid().mul(z.mul(at::rsub(z.sigmoid(), 1)).add(1)) : z * 0 + 1;
      const Tensor d = exact(dy, s).mul(slope);
      const Tensor from_centre = exact(x, s).sub(exact(centre));
      Tensor sums = numbers(s, type);
      Tensor products = numbers(s, type);
      kernels::channel_sums(dy, x, by, centre, sums, products);
      const double sums_near = tolerance_of(sums.scalar_type());
      expect_near(sums, d.sum(1), sums_near, "sums");
      expect_near(products, d.mul(from_centre).sum(1), sums_near, "products");

      const kernels::ChannelGradient g{numbers(s, type), numbers(s, type), numbers(s, type)};
      Tensor dx = at::empty_like(x);
      kernels::scale_channels_backward(dy, x, by, centre, g, dx);
      expect_near(exact(dx, s), d.mul(exact(g.a)).add(from_centre.mul(exact(g.b))).add(exact(g.c)),
                  near, "gradient");
    }
  });
}

TEST(Columns, AreSummed) {
  for_all([](const Shape& s, at::ScalarType type) {
    const Tensor matrix = images(s, type);
    const Tensor sums = kernels::column_sums(matrix);
    expect_near(sums, matrix.to(at::kDouble).sum(0), tolerance_of(sums.scalar_type()), "sums");
  });
  EXPECT_TRUE(at::equal(kernels::column_sums(at::empty({0, 3})), at::zeros({3})));
}

TEST(Columns, ComeInPieces) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const std::int64_t pieces : {2, 3, 8}) {
      const Tensor stacked = at::randn({pieces * 5, 7}).to(type);
      Tensor rows = at::empty({5, pieces * 7}, stacked.options());
      kernels::merge_pieces(stacked, rows);
      const Tensor expected = stacked.view({pieces, 5, 7}).permute({1, 0, 2}).reshape({5, -1});
      EXPECT_TRUE(at::equal(rows, expected));
      Tensor back = at::empty_like(stacked);
      kernels::stack_pieces(rows, back);
      EXPECT_TRUE(at::equal(back, stacked));
    }
  }
}

}  // namespace
}  // namespace fourfold::test
