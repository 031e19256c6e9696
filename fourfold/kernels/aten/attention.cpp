// Attention, sample by sample and in blocks of queries: the scores of all heads with some queries
// are in memory at once, so that a device has enough to do, and long samples need no more memory.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/zeros_like.h>

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

/// Keys or values for each head of queries. (libtorch's repeat_interleave reads from the device.)
Tensor repeated(const Tensor& heads, const AttentionShape& s) {
  if (s.heads == s.kv_heads) return heads;
  return heads.unsqueeze(1)
      .expand({s.kv_heads, s.heads / s.kv_heads, heads.size(1), heads.size(2)})
      .flatten(0, 1);
}

/// The sum over the heads of queries that share one of keys or values.
Tensor summed(const Tensor& heads, const AttentionShape& s) {
  if (s.heads == s.kv_heads) return heads;
  return heads.view({s.kv_heads, s.heads / s.kv_heads, heads.size(1), heads.size(2)}).sum(1);
}

Heads side_by_side(const Tensor& all, const AttentionShape& s) {
  return {all, {.stride = s.head_size}};
}

/// Some queries of a sample, and the keys that they attend to: the first ones.
struct Block {
  std::int64_t first = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
};

/// The scores of a block: 16 MiB in float. Masks of dropout are computed with numbers of 64 bits,
/// several at a time.
constexpr std::int64_t kMostScores = 1 << 22;
constexpr std::int64_t kMostWithDropout = 1 << 19;

std::vector<Block> blocks_of(const AttentionShape& s) {
  const std::int64_t most = s.dropout > 0 ? kMostWithDropout : kMostScores;
  const std::int64_t rows =
      std::max<std::int64_t>(1, most / std::max<std::int64_t>(1, s.heads * s.keys));
  std::vector<Block> blocks;
  for (std::int64_t first = 0; first < s.queries; first += rows) {
    const std::int64_t here = std::min(rows, s.queries - first);
    blocks.push_back({first, here, s.causal ? s.keys - s.queries + first + here : s.keys});
  }
  return blocks;
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

  Tensor queries(const Block& b) const { return q.narrow(1, b.first, b.queries); }
  Tensor keys(const Block& b) const { return k.narrow(1, 0, b.keys); }
  Tensor values(const Block& b) const { return v.narrow(1, 0, b.keys); }
  /// The positions of the queries among the keys.
  Tensor positions(const Block& b) const {
    const std::int64_t begin = s.keys - s.queries + b.first;
    return at::arange(begin, begin + b.queries, q.options().dtype(at::kLong));
  }

  /// heads × queries × keys; -infinity where a query does not attend.
  Tensor scores(const Block& b) const {
    const Tensor products = at::bmm(queries(b), keys(b).transpose(1, 2)).mul_(scale());
    if (!s.causal) return products;
    const auto options = q.options().dtype(at::kLong);
    const Tensor hidden = at::arange(b.keys, options).view({1, -1}).gt(column(positions(b)));
    return products.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  }

  /// Of the scores.
  Tensor mask(const Block& b) const {
    const auto options = q.options().dtype(at::kLong);
    const std::int64_t head = (s.first_sample + sample) * s.all_heads + s.first_head;
    const Tensor heads = column(at::arange(head, head + s.heads, options)).mul_(s.keys);
    const Tensor rows = heads.add(positions(b).view({1, -1}));
    return dropout_mask(rows.flatten(), {0, b.keys}, s.key, s.dropout, 1 / (1 - s.dropout),
                        q.scalar_type())
        .view({s.heads, b.queries, b.keys});
  }

  const AttentionShape& s;
  std::int64_t sample;
  Tensor q;
  Tensor k;
  Tensor v;
};

/// Adds the gradients of a block of queries. `dots` has a number for each query: the product of the
/// output with its gradient.
void add_gradients(const Sample& sample, const Block& b, const Tensor& logarithms,
                   const Tensor& upstream, const Tensor& dots, const Tensor& dq, const Tensor& dk,
                   const Tensor& dv) {
  const Tensor p = sample.scores(b).sub_(logarithms).exp_();
  Tensor dp = at::bmm(upstream, sample.values(b).transpose(1, 2));
  if (sample.s.dropout > 0) {
    const Tensor mask = sample.mask(b);
    dv.narrow(1, 0, b.keys).baddbmm_(p.mul(mask).transpose_(1, 2), upstream);
    dp.mul_(mask);
  } else {
    dv.narrow(1, 0, b.keys).baddbmm_(p.transpose(1, 2), upstream);
  }
  dp.sub_(dots).mul_(p).mul_(sample.scale());
  dk.narrow(1, 0, b.keys).baddbmm_(dp.transpose(1, 2), sample.queries(b));
  dq.narrow(1, b.first, b.queries).copy_(at::bmm(dp, sample.keys(b)));
}

}  // namespace

void attention_forward(const AttentionShape& shape, const QueryKeyValue& qkv, Tensor& out,
                       Tensor& logsum) {
  const NoGraph guard;
  for (std::int64_t i = 0; i < shape.samples; ++i) {
    const Sample sample(shape, qkv, i);
    const Tensor sums = logsum.view({shape.samples, shape.heads, shape.queries}).select(0, i);
    Tensor result = at::empty_like(sample.q, at::MemoryFormat::Contiguous);
    for (const Block& b : blocks_of(shape)) {
      Tensor p = sample.scores(b);
      const Tensor logarithms = at::logsumexp(p, 2);
      sums.narrow(1, b.first, b.queries).copy_(logarithms);
      p.sub_(logarithms.unsqueeze(2)).exp_();
      if (shape.dropout > 0) p.mul_(sample.mask(b));
      result.narrow(1, b.first, b.queries).copy_(at::bmm(p, sample.values(b)));
    }
    write(lie_in(side_by_side(out, shape), shape, shape.heads, shape.queries, i), result);
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
    const Tensor upstream = of_output(dout, i);
    const Tensor dots = upstream.mul(of_output(out, i)).sum(2, true);
    const Tensor dq = at::empty_like(sample.q, at::MemoryFormat::Contiguous);
    const Tensor dk = at::zeros_like(sample.k, at::MemoryFormat::Contiguous);
    const Tensor dv = at::zeros_like(sample.v, at::MemoryFormat::Contiguous);
    for (const Block& b : blocks_of(shape)) {
      const auto here = [&](const Tensor& all) { return all.narrow(1, b.first, b.queries); };
      add_gradients(sample, b, here(logarithms), here(upstream), here(dots), dq, dk, dv);
    }
    write(lie_in(gradients.q, shape, shape.heads, shape.queries, i), dq);
    write(lie_in(gradients.k, shape, shape.kv_heads, shape.keys, i), summed(dk, shape));
    write(lie_in(gradients.v, shape, shape.kv_heads, shape.keys, i), summed(dv, shape));
  }
}

}  // namespace fourfold::kernels::aten
