// Attention, sample by sample: the scores of all heads of a sample are in memory at once.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/logsumexp.h>

#include "fourfold/kernels/aten/philox.hpp"
#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

namespace {

/// One sample of some heads: rows × groups × heads of a group × head_size, where they lie.
Tensor lie_in(const Heads& heads, const AttentionShape& s, std::int64_t count, std::int64_t rows,
              std::int64_t sample) {
  const std::int64_t sample_rows = heads.sample_rows > 0 ? heads.sample_rows : rows;
  return view_of_heads(heads.matrix, heads.columns, count, s.head_size, s.samples, rows,
                       sample_rows)
      .select(0, sample);
}

/// The same as heads × rows × head_size.
Tensor heads_first(const Tensor& lying) {
  return lying.permute({1, 2, 0, 3}).flatten(0, 1);
}

/// Writes heads × rows × head_size to where the heads lie.
void write(const Tensor& lying, const Tensor& heads) {
  lying.permute({1, 2, 0, 3})
      .copy_(heads.view({lying.size(1), lying.size(2), lying.size(0), lying.size(3)}));
}

/// Keys or values for each head of queries.
Tensor repeated(const Tensor& heads, const AttentionShape& s) {
  return s.heads == s.kv_heads ? heads : heads.repeat_interleave(s.heads / s.kv_heads, 0);
}

/// The sum over the heads of queries that share one of keys or values.
Tensor summed(const Tensor& heads, const AttentionShape& s) {
  if (s.heads == s.kv_heads) return heads;
  return heads.view({s.kv_heads, s.heads / s.kv_heads, heads.size(1), heads.size(2)}).sum(1);
}

Heads side_by_side(const Tensor& all, const AttentionShape& s) {
  return {all, {.stride = s.head_size}};
}

/// One sample, and what is computed from it in both directions.
struct Sample {
  Sample(const AttentionShape& shape, const QueryKeyValue& all, std::int64_t number)
      : s(shape),
        sample(number),
        q(heads_first(lie_in(all.q, s, s.heads, s.queries, sample))),
        k(repeated(heads_first(lie_in(all.k, s, s.kv_heads, s.keys, sample)), s)),
        v(repeated(heads_first(lie_in(all.v, s, s.kv_heads, s.keys, sample)), s)) {}

  double scale() const { return 1 / std::sqrt(static_cast<double>(s.head_size)); }

  /// heads × queries × keys; -infinity where a query does not attend.
  Tensor scores() const {
    const Tensor products = at::bmm(q, k.transpose(1, 2)).mul_(scale());
    if (!s.causal) return products;
    const auto options = q.options().dtype(at::kLong);
    const Tensor last = column(at::arange(s.keys - s.queries, s.keys, options));
    const Tensor hidden = at::arange(s.keys, options).view({1, -1}).gt(last);
    return products.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  }

  /// Of the scores.
  Tensor mask() const {
    const auto options = q.options().dtype(at::kLong);
    const std::int64_t head = (s.first_sample + sample) * s.all_heads + s.first_head;
    const Tensor heads = column(at::arange(head, head + s.heads, options)).mul_(s.keys);
    const Tensor rows = heads.add(at::arange(s.keys - s.queries, s.keys, options).view({1, -1}));
    return dropout_mask(rows.flatten(), {0, s.keys}, s.key, s.dropout, 1 / (1 - s.dropout),
                        q.scalar_type())
        .view({s.heads, s.queries, s.keys});
  }

  const AttentionShape& s;
  std::int64_t sample;
  Tensor q;
  Tensor k;
  Tensor v;
};

}  // namespace

void attention_forward(const AttentionShape& shape, const QueryKeyValue& qkv, Tensor& out,
                       Tensor& logsum) {
  const NoGraph guard;
  for (std::int64_t i = 0; i < shape.samples; ++i) {
    const Sample sample(shape, qkv, i);
    Tensor p = sample.scores();
    const Tensor logarithms = at::logsumexp(p, 2);
    logsum.view({shape.samples, shape.heads, shape.queries}).select(0, i).copy_(logarithms);
    p.sub_(logarithms.unsqueeze(2)).exp_();
    if (shape.dropout > 0) p.mul_(sample.mask());
    write(lie_in(side_by_side(out, shape), shape, shape.heads, shape.queries, i),
          at::bmm(p, sample.v));
  }
}

void attention_backward(const AttentionShape& shape, const QueryKeyValue& qkv, const Tensor& out,
                        const Tensor& logsum, const Tensor& dout, const QueryKeyValue& gradients) {
  const NoGraph guard;
  const auto of_output = [&](const Tensor& all, std::int64_t i) {
    return heads_first(lie_in(side_by_side(all, shape), shape, shape.heads, shape.queries, i));
  };
  for (std::int64_t i = 0; i < shape.samples; ++i) {
    const Sample sample(shape, qkv, i);
    const Tensor logarithms =
        logsum.view({shape.samples, shape.heads, shape.queries}).select(0, i).unsqueeze(2);
    const Tensor p = sample.scores().sub_(logarithms).exp_();
    const Tensor upstream = of_output(dout, i);
    const Tensor dots = upstream.mul(of_output(out, i)).sum(2, true);
    Tensor dp = at::bmm(upstream, sample.v.transpose(1, 2));
    Tensor dropped = p;
    if (shape.dropout > 0) {
      const Tensor mask = sample.mask();
      dropped = p.mul(mask);
      dp.mul_(mask);
    }
    const Tensor dv = at::bmm(dropped.transpose(1, 2), upstream);
    dp.sub_(dots).mul_(p).mul_(sample.scale());
    write(lie_in(gradients.q, shape, shape.heads, shape.queries, i), at::bmm(dp, sample.k));
    write(lie_in(gradients.k, shape, shape.kv_heads, shape.keys, i),
          summed(at::bmm(dp.transpose(1, 2), sample.q), shape));
    write(lie_in(gradients.v, shape, shape.kv_heads, shape.keys, i), summed(dv, shape));
  }
}

}  // namespace fourfold::kernels::aten
