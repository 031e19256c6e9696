// Attention in which query heads share keys and values, and attention of the last positions only,
// against masked softmax in plain libtorch in double. (tests/nn/attention_test.cpp has the rest.)
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/attention.hpp"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

#include "tests/kernels/support.hpp"

namespace fourfold::test {
namespace {

using kernels::AttentionShape;
using kernels::Heads;
using kernels::QueryKeyValue;

AttentionShape shape_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t queries,
                        std::int64_t keys, double dropout = 0) {
  return {.samples = 2,
          .queries = queries,
          .keys = keys,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_size = 6,
          .first_sample = 1,
          .first_head = 2,
          .all_heads = heads + 3,
          .dropout = dropout,
          .key = kernels::key_of(4, "attention")};
}

/// (samples·rows) × (heads·head_size) as samples × heads × rows × head_size.
Tensor by_head(const Tensor& matrix, const AttentionShape& s, std::int64_t rows,
               std::int64_t heads) {
  return matrix.view({s.samples, rows, heads, s.head_size}).transpose(1, 2);
}

Tensor masks_of(const AttentionShape& s) {
  std::vector<Tensor> masks;
  for (std::int64_t i = 0; i < s.samples * s.heads; ++i) {
    const std::int64_t head = s.first_head + i % s.heads;
    const std::int64_t end =
        ((s.first_sample + i / s.heads) * s.all_heads + head) * s.keys + s.keys;
    masks.push_back(at::empty({s.queries, s.keys}, at::kDouble));
    kernels::fill_dropout_mask(masks.back(), {{end - s.queries, end}, {0, s.keys}}, s.key,
                               s.dropout, 1 / (1 - s.dropout));
  }
  return at::cat(masks).view({s.samples, s.heads, s.queries, s.keys});
}

/// Heads side by side in q, k and v.
Tensor plain(const AttentionShape& s, const Tensor& q, const Tensor& k, const Tensor& v) {
  const std::int64_t group = s.heads / s.kv_heads;
  const auto repeated = [&](const Tensor& matrix) {
    return by_head(matrix, s, s.keys, s.kv_heads).repeat_interleave(group, 1);
  };
  const Tensor scores = at::matmul(by_head(q, s, s.queries, s.heads), repeated(k).transpose(2, 3)) /
                        std::sqrt(static_cast<double>(s.head_size));
  const Tensor later = at::ones({s.queries, s.keys}, at::kBool).triu(1 + s.keys - s.queries);
  Tensor p = scores.masked_fill(later, -INFINITY).softmax(-1);
  if (s.dropout > 0) p = p * masks_of(s);
  return at::matmul(p, repeated(v))
      .transpose(1, 2)
      .reshape({s.samples * s.queries, s.heads * s.head_size});
}

struct Matrices {
  Tensor q;
  Tensor k;
  Tensor v;
};

Matrices random_matrices(const AttentionShape& s, at::ScalarType type) {
  return {random({s.samples * s.queries, s.heads * s.head_size}, type),
          random({s.samples * s.keys, s.kv_heads * s.head_size}, type),
          random({s.samples * s.keys, s.kv_heads * s.head_size}, type)};
}

QueryKeyValue apart(const AttentionShape& s, const Matrices& m) {
  const kernels::HeadColumns columns{.stride = s.head_size};
  return {{m.q, columns}, {m.k, columns}, {m.v, columns}};
}

/// One matrix with columns [group][queries of the group | key | value] behind three others.
struct Together {
  explicit Together(const AttentionShape& s) : shape(s), group(s.heads / s.kv_heads) {}
  Tensor empty(at::ScalarType type) const {
    return at::zeros({shape.samples * shape.keys, 3 + shape.kv_heads * width()}, type);
  }
  QueryKeyValue parts(const Tensor& matrix) const {
    const std::int64_t d = shape.head_size;
    return {{matrix, {.first = 3, .stride = width(), .group = group}},
            {matrix, {.first = 3 + group * d, .stride = width()}},
            {matrix, {.first = 3 + (group + 1) * d, .stride = width()}}};
  }
  std::int64_t width() const { return (group + 2) * shape.head_size; }
  /// Copies all heads of `from` to `to`.
  void copy(const Heads& from, const Heads& to, std::int64_t heads) const {
    const std::int64_t d = shape.head_size;
    for (std::int64_t h = 0; h < heads; ++h) {
      to.matrix.narrow(1, to.columns.begin(h, d), d)
          .copy_(from.matrix.narrow(1, from.columns.begin(h, d), d));
    }
  }
  void copy(const QueryKeyValue& from, const QueryKeyValue& to) const {
    copy(from.q, to.q, shape.heads);
    copy(from.k, to.k, shape.kv_heads);
    copy(from.v, to.v, shape.kv_heads);
  }
  AttentionShape shape;
  std::int64_t group;
};

struct Found {
  Tensor out;
  Matrices gradients;
};

Found found_apart(const AttentionShape& s, const Matrices& m, const Tensor& dout) {
  Tensor out = at::empty_like(m.q);
  Tensor logsum = at::empty({s.samples, s.heads, s.queries}, m.q.options());
  kernels::attention_forward(s, apart(s, m), out, logsum);
  // Nothing of what was there before may stay in the gradients.
  const Matrices gradients{at::full_like(m.q, NAN), at::full_like(m.k, NAN),
                           at::full_like(m.v, NAN)};
  kernels::attention_backward(s, apart(s, m), out, logsum, dout, apart(s, gradients));
  return {out, gradients};
}

Found found_together(const AttentionShape& s, const Matrices& m, const Tensor& dout) {
  const Together together(s);
  const Tensor qkv = together.empty(m.q.scalar_type());
  together.copy(apart(s, m), together.parts(qkv));
  Tensor out = at::empty_like(m.q);
  Tensor logsum = at::empty({s.samples, s.heads, s.queries}, m.q.options());
  kernels::attention_forward(s, together.parts(qkv), out, logsum);
  const Tensor dqkv = together.empty(m.q.scalar_type());
  kernels::attention_backward(s, together.parts(qkv), out, logsum, dout, together.parts(dqkv));
  EXPECT_EQ(dqkv.narrow(1, 0, 3).abs().max().item<double>(), 0) << "columns of others";
  const Matrices gradients{at::empty_like(m.q), at::empty_like(m.k), at::empty_like(m.v)};
  together.copy(together.parts(dqkv), apart(s, gradients));
  return {out, gradients};
}

void expect_near(const Found& found, const Tensor& expected, const Matrices& leaves,
                 double tolerance) {
  EXPECT_LE(relative_difference(found.out, expected.detach()), tolerance);
  EXPECT_LE(relative_difference(found.gradients.q, leaves.q.grad()), tolerance);
  EXPECT_LE(relative_difference(found.gradients.k, leaves.k.grad()), tolerance);
  EXPECT_LE(relative_difference(found.gradients.v, leaves.v.grad()), tolerance);
}

/// Attention computes bf16 in float.
template <class Body>
void in_wide_types_and_every_way(const Body& body) {
  in_every_type_and_way([&](at::ScalarType type, double) {
    if (type != at::kBFloat16) body(type, type == at::kDouble ? 1e-12 : 1e-5);
  });
}

class GroupedAttention : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(GroupedAttention, EqualsAttentionWithRepeatedKeys) {
  const auto [heads, kv_heads] = GetParam();
  // (With one position the gradients of queries and keys are zero.)
  for (const std::int64_t context : {2, 33, 150}) {
    for (const double dropout : {0.0, 0.3}) {
      SCOPED_TRACE(concat("context ", context, " dropout ", dropout));
      const AttentionShape s = shape_of(heads, kv_heads, context, context, dropout);
      in_wide_types_and_every_way([&](at::ScalarType type, double tolerance) {
        const Matrices m = random_matrices(s, type);
        const Tensor dout = random(m.q.sizes(), type);
        const Matrices leaves{leaf_of(m.q), leaf_of(m.k), leaf_of(m.v)};
        const Tensor expected = plain(s, leaves.q, leaves.k, leaves.v);
        expected.backward(dout.to(at::kDouble));
        expect_near(found_apart(s, m, dout), expected, leaves, tolerance);
        expect_near(found_together(s, m, dout), expected, leaves, tolerance);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, GroupedAttention,
                         testing::Values(std::pair(6, 6), std::pair(6, 3), std::pair(6, 2),
                                         std::pair(6, 1), std::pair(1, 1)),
                         [](const auto& tested) {
                           return concat(tested.param.first, "with", tested.param.second);
                         });

/// Keys and values in a cache that has room for more of them.
TEST(AttentionOfLastPositions, EqualsTheLastRows) {
  for (const std::int64_t keys : {1, 40, 700}) {
    for (const std::int64_t queries : {std::int64_t{1}, (keys + 2) / 3, keys}) {
      SCOPED_TRACE(concat(queries, " queries of ", keys, " keys"));
      const AttentionShape s = shape_of(6, 2, queries, keys);
      in_wide_types_and_every_way([&](at::ScalarType type, double tolerance) {
        const Matrices m = random_matrices(s, type);
        const std::int64_t room = keys + 5;
        const auto cached = [&](const Tensor& matrix) -> Heads {
          Tensor cache = at::full({s.samples, room, matrix.size(1)}, NAN, matrix.options());
          cache.narrow(1, 0, keys).copy_(matrix.view({s.samples, keys, -1}));
          return {cache.view({s.samples * room, -1}), {.stride = s.head_size}, room};
        };
        Tensor out = at::empty_like(m.q);
        Tensor logsum = at::empty({s.samples, s.heads, queries}, m.q.options());
        kernels::attention_forward(s, {{m.q, {.stride = s.head_size}}, cached(m.k), cached(m.v)},
                                   out, logsum);
        const Tensor expected =
            plain(s, m.q.to(at::kDouble), m.k.to(at::kDouble), m.v.to(at::kDouble));
        EXPECT_LE(relative_difference(out, expected), tolerance);
      });
    }
  }
}

TEST(AttentionOfLastPositions, ComputesTheBlocksOfItsQueries) {
  EXPECT_EQ(kernels::computed_scores(1, 1000), 1000);
  EXPECT_EQ(kernels::computed_scores(2, 10), 20);
  EXPECT_LT(kernels::computed_scores(1000, 2000), 1000 * 2000);
}

TEST(AttentionOfLastPositions, RefusesWhatItCannotDo) {
  const Tensor matrix = at::zeros({4, 36});
  Tensor out = at::zeros({4, 36});
  Tensor logsum = at::zeros({24});
  const Heads heads{matrix, {.stride = 6}};
  const QueryKeyValue qkv{heads, heads, heads};
  EXPECT_THROW(kernels::attention_forward(shape_of(6, 4, 2, 2), qkv, out, logsum), InvariantError)
      << "4 does not divide 6";
  EXPECT_THROW(kernels::attention_forward(shape_of(6, 6, 2, 1), qkv, out, logsum), InvariantError)
      << "more queries than keys";
  EXPECT_THROW(kernels::attention_backward(shape_of(6, 6, 1, 2), qkv, out, logsum, out, qkv),
               InvariantError)
      << "a gradient of some queries";
}

}  // namespace
}  // namespace fourfold::test
