// Causal attention on one rank against masked softmax in plain libtorch.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/attention.hpp"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"
#include "fourfold/kernels/attention.hpp"

#include "tests/model/compare.hpp"
#include "tests/nn/pieces.hpp"

namespace fourfold::test {
namespace {

using nn::AttentionShape;

/// A part of a larger whole, as dropout sees it.
AttentionShape shape_of(std::int64_t context, std::int64_t head_size, double dropout = 0) {
  return {.samples = 2,
          .context = context,
          .heads = 2,
          .head_size = head_size,
          .first_sample = 3,
          .first_head = 1,
          .all_heads = 5,
          .dropout = dropout,
          .key = kernels::key_of(4, "attention")};
}

Tensor qkv_of(const AttentionShape& s, double deviation = 1) {
  return normal({s.samples * s.context, 3 * s.heads * s.head_size}, "qkv", deviation);
}

Tensor upstream_of(const AttentionShape& s) {
  return normal({s.samples * s.context, s.heads * s.head_size}, "upstream");
}

/// samples × heads × context × context.
Tensor masks_of(const AttentionShape& s) {
  std::vector<Tensor> masks;
  for (std::int64_t sample = 0; sample < s.samples; ++sample) {
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const std::int64_t first =
          ((s.first_sample + sample) * s.all_heads + s.first_head + head) * s.context;
      masks.push_back(at::empty({s.context, s.context}, at::kDouble));
      kernels::fill_dropout_mask(masks.back(), {{first, first + s.context}, {0, s.context}}, s.key,
                                 s.dropout, 1 / (1 - s.dropout));
    }
  }
  return at::cat(masks).view({s.samples, s.heads, s.context, s.context});
}

struct Result {
  Tensor output;
  Tensor gradient;
};

Result plain(const AttentionShape& s, const Tensor& values) {
  const Tensor leaf = values.detach().clone().set_requires_grad(true);
  const Tensor qkv = leaf.view({s.samples, s.context, s.heads, 3, s.head_size});
  const auto part = [&](int index) { return qkv.select(3, index).transpose(1, 2); };
  const Tensor scores =
      at::matmul(part(0), part(1).transpose(2, 3)) / std::sqrt(static_cast<double>(s.head_size));
  const Tensor above = at::ones({s.context, s.context}, at::kBool).triu(1);
  Tensor p = scores.masked_fill(above, -INFINITY).softmax(-1);
  if (s.dropout > 0) p = p * masks_of(s);
  const Tensor out = at::matmul(p, part(2))
                         .transpose(1, 2)
                         .reshape({s.samples * s.context, s.heads * s.head_size});
  out.backward(upstream_of(s));
  return {out.detach(), leaf.grad()};
}

Result ours(const AttentionShape& s, const Tensor& values) {
  comm::World world = comm::self::open();
  const tensor::Mesh mesh(world, grid::Grid());
  const Tensor leaf = values.detach().clone().set_requires_grad(true);
  const Tensor out = nn::causal_attention(mesh, leaf, s);
  out.backward(upstream_of(s).to(values.scalar_type()));
  return {out.detach(), leaf.grad()};
}

void expect_near(const Result& result, const Result& expected, double tolerance,
                 const std::string& what) {
  EXPECT_LE(relative_error(result.output, expected.output, expected.output), tolerance)
      << what << " output";
  EXPECT_LE(relative_error(result.gradient, expected.gradient, expected.gradient), tolerance)
      << what << " gradient";
}

class AttentionOf : public testing::TestWithParam<std::int64_t> {};

TEST_P(AttentionOf, EqualsMaskedSoftmax) {
  for (const std::int64_t head_size : {3, 16, 64}) {
    for (const double dropout : {0.0, 0.3}) {
      const AttentionShape shape = shape_of(GetParam(), head_size, dropout);
      const Tensor qkv = qkv_of(shape);
      expect_near(ours(shape, qkv), plain(shape, qkv), 1e-10,
                  concat("head size ", head_size, " dropout ", dropout));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Contexts, AttentionOf, testing::Values(1, 5, 33, 128, 129, 300, 700),
                         testing::PrintToStringParamName());

/// No more is computed than the blocks on and below the diagonal.
TEST(Attention, SkipsWhatLiesAboveTheDiagonal) {
  EXPECT_EQ(kernels::computed_scores(1, 1), 1);
  EXPECT_EQ(kernels::computed_scores(100, 100), 100 * 100);
  EXPECT_LT(kernels::computed_scores(2048, 2048), 2048 * 2048 * 6 / 10);
}

TEST(Attention, FloatIsWithin1em5) {
  for (const double dropout : {0.0, 0.3}) {
    const AttentionShape shape = shape_of(300, 16, dropout);
    const Tensor qkv = qkv_of(shape).to(at::kFloat);
    const Result expected = plain(shape, qkv.to(at::kDouble));
    const Result result = ours(shape, qkv);
    EXPECT_EQ(result.output.scalar_type(), at::kFloat);
    expect_near(result, expected, 1e-5, "float");
  }
}

TEST(Attention, Bf16IsWithin2Percent) {
  for (const double dropout : {0.0, 0.3}) {
    const AttentionShape shape = shape_of(129, 16, dropout);
    const Tensor qkv = qkv_of(shape).to(at::kBFloat16);
    const Result expected = plain(shape, qkv.to(at::kDouble));
    const Result result = ours(shape, qkv);
    EXPECT_EQ(result.output.scalar_type(), at::kBFloat16);
    EXPECT_EQ(result.gradient.scalar_type(), at::kBFloat16);
    expect_near(result, expected, 2e-2, "bf16");
  }
}

/// A NaN in q, k or v of a position reaches that position's output, whatever hides it.
TEST(Attention, NanReachesTheOutput) {
  const AttentionShape shape = shape_of(129, 16, 0.3);
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const std::int64_t part : {0, 1, 2}) {
      for (const std::int64_t position : {0, 77, 128}) {
        Tensor qkv = qkv_of(shape).to(type);
        qkv[shape.context + position].narrow(0, part * shape.head_size + 2, 1).fill_(NAN);
        const Tensor out = ours(shape, qkv).output;
        const Tensor row = out[shape.context + position].narrow(0, 0, shape.head_size);
        EXPECT_TRUE(at::isnan(row).any().item<bool>())
            << "part " << part << " position " << position << " of " << type;
        EXPECT_FALSE(at::isnan(out.narrow(0, 0, shape.context)).any().item<bool>())
            << "another sample";
      }
    }
  }
}

/// Scores of up to 1e4 are rounded by 1e4 times the precision, and so is the result.
TEST(Attention, LargeScoresDoNotOverflow) {
  const AttentionShape shape = shape_of(129, 16);
  Tensor qkv = qkv_of(shape, 30);
  Tensor values = qkv.view({-1, shape.heads, 3, shape.head_size});
  values.select(2, 2).div_(30);
  Tensor scores =
      at::matmul(values.select(2, 0).select(1, 0), values.select(2, 1).select(1, 0).t());
  ASSERT_GT(scores.abs().max().item<double>() / 4, 3e3);
  qkv.mul_(std::sqrt(1e4 / (scores.abs().max().item<double>() / 4)));
  expect_near(ours(shape, qkv), plain(shape, qkv), 1e-10, "double");
  const Tensor narrow = qkv.to(at::kFloat);
  const Result result = ours(shape, narrow);
  EXPECT_TRUE(at::isfinite(result.output).all().item<bool>());
  EXPECT_TRUE(at::isfinite(result.gradient).all().item<bool>());
  expect_near(result, plain(shape, narrow.to(at::kDouble)), 1e-2, "float");
}

}  // namespace
}  // namespace fourfold::test
