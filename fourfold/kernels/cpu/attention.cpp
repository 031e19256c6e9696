// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "fourfold/kernels/cpu/simd.hpp"
#include "fourfold/kernels/cpu/softmax.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

/// The scores of a block of queries should stay in the cache between products.
constexpr std::int64_t kScoresInCache = 1 << 16;
constexpr std::int64_t kMostRows = 128;
constexpr std::int64_t kFewestRows = 32;

/// Work on the scores of `queries`, the last positions before `keys`, in blocks of some rows.
struct Blocks {
  Blocks(std::int64_t all_queries, std::int64_t all_keys, bool is_causal)
      : queries(all_queries),
        keys(all_keys),
        causal(is_causal),
        rows(std::clamp(kScoresInCache / all_keys / 16 * 16, kFewestRows, kMostRows)),
        count((all_queries + rows - 1) / rows) {}

  /// The row of the queries with which a block begins.
  std::int64_t query(std::int64_t index) const { return index * rows; }

  ScoreBlock operator[](std::int64_t index) const {
    const std::int64_t first = keys - queries + query(index);
    const std::int64_t here = std::min(rows, keys - first);
    return {first, here, causal ? first + here : keys, causal};
  }

  std::int64_t queries;
  std::int64_t keys;
  bool causal;
  std::int64_t rows;  ///< of a block; the last one may have fewer
  std::int64_t count;
};

Blocks blocks_of(const AttentionShape& shape) {
  return {shape.queries, shape.keys, shape.causal};
}

/// `rows` positions of one head of one sample, as a matrix (rows × head_size).
Tensor head_of(const Heads& heads, std::int64_t rows, std::int64_t head_size, std::int64_t sample,
               std::int64_t head) {
  const std::int64_t step = heads.matrix.stride(0);
  const std::int64_t sample_rows = heads.sample_rows > 0 ? heads.sample_rows : rows;
  return heads.matrix.as_strided({rows, head_size}, {step, 1},
                                 heads.matrix.storage_offset() + sample * sample_rows * step +
                                     heads.columns.begin(head, head_size));
}

/// One head of queries of one sample, with its keys and values.
struct Head {
  Head(const QueryKeyValue& all, const AttentionShape& s, std::int64_t sample, std::int64_t head)
      : q(head_of(all.q, s.queries, s.head_size, sample, head)),
        k(head_of(all.k, s.keys, s.head_size, sample, head / (s.heads / s.kv_heads))),
        v(head_of(all.v, s.keys, s.head_size, sample, head / (s.heads / s.kv_heads))) {}
  Tensor q;
  Tensor k;
  Tensor v;
};

/// A head of the output or of its gradient, whose heads lie side by side.
Tensor rows_of(const Tensor& all, const AttentionShape& s, std::int64_t sample, std::int64_t head) {
  return head_of({all, {.stride = s.head_size}}, s.queries, s.head_size, sample, head);
}

/// The first elements of `memory` as the scores of a block.
Tensor scores_in(const Tensor& memory, const ScoreBlock& block) {
  return memory.as_strided({block.rows, block.keys}, {block.keys, 1}, 0);
}

/// Some of the rows. If all rows are wanted, no view is made.
Tensor part(const Tensor& rows, std::int64_t first, std::int64_t count) {
  return count == rows.size(0) ? rows : rows.narrow(0, first, count);
}

/// Draws the dropout mask of row r of a block, whose first row has the number `row`.
template <class A>
void draw(A* mask, const ScoreBlock& block, const AttentionShape& shape, std::int64_t row,
          std::int64_t r) {
  fill_dropout_run(mask, row + r, 0, block.keys, shape.key, shape.dropout, 1 / (1 - shape.dropout));
}

/// Memory for the work on one block, of the type A.
struct Scratch {
  Scratch(const AttentionShape& shape, const at::TensorOptions& options, bool backward)
      : scores(at::empty({blocks_of(shape).rows * shape.keys}, options)),
        gradients(at::empty({backward ? scores.numel() : 0}, options)),
        dropped(at::empty({backward && shape.dropout > 0 ? scores.numel() : 0}, options)),
        mask(at::empty({shape.dropout > 0 ? shape.keys : 0}, options)),
        row(at::empty({blocks_of(shape).rows}, options)) {}

  Tensor scores;
  Tensor gradients;  // of the scores
  Tensor dropped;    // the scores after dropout
  Tensor mask;       // of one row
  Tensor row;        // a number for each row
};

/// The number of the first row of scores of a head among the rows of all samples and heads.
std::int64_t row_number(const AttentionShape& s, std::int64_t sample, std::int64_t head) {
  return ((s.first_sample + sample) * s.all_heads + s.first_head + head) * s.keys;
}

template <class A>
void forward_head(const AttentionShape& s, const Head& head, Tensor& out, A* logsum,
                  const Scratch& scratch, std::int64_t first_row) {
  const A scale = 1 / std::sqrt(static_cast<A>(s.head_size));
  A* inverse = elements<A>(scratch.row);
  const Blocks blocks = blocks_of(s);
  for (std::int64_t i = 0; i < blocks.count; ++i) {
    const ScoreBlock block = blocks[i];
    const std::int64_t first = blocks.query(i);
    Tensor scores = scores_in(scratch.scores, block);
    at::mm_out(scores, part(head.q, first, block.rows), part(head.k, 0, block.keys).t());
    softmax_block(elements<A>(scores), block, scale, logsum + first, inverse);
    if (s.dropout > 0) {
      A* row = elements<A>(scores);
      for (std::int64_t r = 0; r < block.rows; ++r, row += block.keys) {
        draw(elements<A>(scratch.mask), block, s, first_row + block.first, r);
        multiply_into(row, row, elements<A>(scratch.mask), block.keys);
      }
    }
    Tensor rows = part(out, first, block.rows);
    at::mm_out(rows, scores, part(head.v, 0, block.keys));
    scale_rows(elements<A>(rows), block.rows, s.head_size, rows.stride(0), inverse);
  }
}

template <class A>
void backward_head(const AttentionShape& s, const Head& head, const Tensor& out, const Tensor& dout,
                   const A* logsum, const Scratch& scratch, std::int64_t first_row,
                   const Head& gradient, bool adds) {
  const A scale = 1 / std::sqrt(static_cast<A>(s.head_size));
  // The last block comes first: it uses all keys, so that its products set the values that the
  // other blocks add to.
  const Blocks blocks = blocks_of(s);
  for (std::int64_t i = blocks.count - 1; i >= 0; --i) {
    const ScoreBlock block = blocks[i];
    const Tensor q = part(head.q, block.first, block.rows);
    const Tensor k = part(head.k, 0, block.keys);
    const Tensor dout_rows = part(dout, block.first, block.rows);
    Tensor p = scores_in(scratch.scores, block);
    Tensor dp = scores_in(scratch.gradients, block);
    at::mm_out(p, q, k.t());
    softmax_again(elements<A>(p), block, scale, logsum + block.first);
    at::mm_out(dp, dout_rows, part(head.v, 0, block.keys).t());
    A* dots = elements<A>(scratch.row);
    row_dots(elements<A>(dout_rows), elements<A>(part(out, block.first, block.rows)), block.rows,
             s.head_size, out.stride(0), dots);
    Tensor dropped = p;
    if (s.dropout > 0) {
      dropped = scores_in(scratch.dropped, block);
      for (std::int64_t r = 0; r < block.rows; ++r) {
        const std::int64_t at = r * block.keys;
        const A* mask = elements<A>(scratch.mask);
        draw(elements<A>(scratch.mask), block, s, first_row + block.first, r);
        multiply_into(elements<A>(dropped) + at, elements<A>(p) + at, mask, block.keys);
        multiply_into(elements<A>(dp) + at, elements<A>(dp) + at, mask, block.keys);
      }
    }
    const double keep = adds || i < blocks.count - 1 ? 1 : 0;
    Tensor dv = part(gradient.v, 0, block.keys);
    at::addmm_out(dv, dv, dropped.t(), dout_rows, keep);
    softmax_gradient(elements<A>(dp), elements<A>(p), block, scale, dots);
    Tensor dq = part(gradient.q, block.first, block.rows);
    at::mm_out(dq, dp, k);
    Tensor dk = part(gradient.k, 0, block.keys);
    at::addmm_out(dk, dk, dp.t(), q, keep);
  }
}

/// Calls `body` for each head of each sample on this rank.
template <class Body>
void for_each_head(const AttentionShape& shape, const Body& body) {
  for (std::int64_t sample = 0; sample < shape.samples; ++sample) {
    for (std::int64_t head = 0; head < shape.heads; ++head) body(sample, head);
  }
}

/// Calls `body` with float or double, the type of the tensor.
template <class Body>
void by_type(const Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kDouble) return body(double{});
  body(float{});
}

}  // namespace

void attention_forward(const AttentionShape& shape, const QueryKeyValue& qkv, Tensor& out,
                       Tensor& logsum) {
  const at::AutoDispatchBelowADInplaceOrView direct;  // small products: every microsecond counts
  by_type(out, [&]<class A>(A) {
    const Scratch scratch(shape, out.options(), false);
    for_each_head(shape, [&](std::int64_t sample, std::int64_t head) {
      Tensor rows = rows_of(out, shape, sample, head);
      forward_head(shape, Head(qkv, shape, sample, head), rows,
                   elements<A>(logsum) + (sample * shape.heads + head) * shape.queries, scratch,
                   row_number(shape, sample, head));
    });
  });
}

void attention_backward(const AttentionShape& shape, const QueryKeyValue& qkv, const Tensor& out,
                        const Tensor& logsum, const Tensor& dout, const QueryKeyValue& gradients) {
  const at::AutoDispatchBelowADInplaceOrView direct;  // small products: every microsecond counts
  by_type(out, [&]<class A>(A) {
    const Scratch scratch(shape, out.options(), true);
    for_each_head(shape, [&](std::int64_t sample, std::int64_t head) {
      // The first query head of a group sets the gradients that its other heads add to.
      const bool adds = head % (shape.heads / shape.kv_heads) != 0;
      backward_head(shape, Head(qkv, shape, sample, head), rows_of(out, shape, sample, head),
                    rows_of(dout, shape, sample, head),
                    elements<const A>(logsum) + (sample * shape.heads + head) * shape.queries,
                    scratch, row_number(shape, sample, head), Head(gradients, shape, sample, head),
                    adds);
    });
  });
}

}  // namespace fourfold::kernels::cpu

namespace fourfold::kernels {

// What a schedule says of attention is what this way computes, also where another way runs.

std::int64_t computed_scores(std::int64_t queries, std::int64_t keys, bool causal) {
  const cpu::Blocks blocks(queries, keys, causal);
  std::int64_t scores = 0;
  for (std::int64_t i = 0; i < blocks.count; ++i) scores += blocks[i].rows * blocks[i].keys;
  return scores;
}

std::int64_t attention_scratch(const AttentionShape& shape, bool backward) {
  const cpu::Scratch scratch(shape, at::TensorOptions().device(at::kMeta), backward);
  return scratch.scores.numel() + scratch.gradients.numel() + scratch.dropped.numel() +
         scratch.mask.numel() + scratch.row.numel();
}

}  // namespace fourfold::kernels
