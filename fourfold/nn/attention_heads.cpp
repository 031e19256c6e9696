// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/attention_heads.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/core/LegacyTypeDispatch.h>

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/simd.hpp"
#include "fourfold/tensor/softmax_kernels.hpp"

namespace fourfold::nn {

namespace {

using tensor::elements;
using tensor::ScoreBlock;

/// The scores of a block of queries should stay in the cache between products.
constexpr std::int64_t kScoresInCache = 1 << 16;
constexpr std::int64_t kMostRows = 128;
constexpr std::int64_t kFewestRows = 32;

std::int64_t rows_of_block(std::int64_t context) {
  const std::int64_t fitting = kScoresInCache / context / 16 * 16;
  return std::clamp(fitting, kFewestRows, kMostRows);
}

std::int64_t blocks_of(std::int64_t context) {
  return (context + rows_of_block(context) - 1) / rows_of_block(context);
}

ScoreBlock block_at(std::int64_t index, std::int64_t context) {
  const std::int64_t rows = rows_of_block(context);
  const std::int64_t first = index * rows;
  const std::int64_t here = std::min(rows, context - first);
  return {first, here, first + here};
}

/// One head of one sample: its rows in the whole tensors, as matrices (context × head_size).
struct Head {
  Tensor q;
  Tensor k;
  Tensor v;
};

Head head_of(const Tensor& qkv, const AttentionShape& s, std::int64_t sample, std::int64_t head) {
  const std::int64_t width = 3 * s.heads * s.head_size;
  const std::int64_t base =
      qkv.storage_offset() + sample * s.context * width + head * 3 * s.head_size;
  const auto part = [&](std::int64_t index) {
    return qkv.as_strided({s.context, s.head_size}, {width, 1}, base + index * s.head_size);
  };
  return {part(0), part(1), part(2)};
}

Tensor rows_of(const Tensor& all, const AttentionShape& s, std::int64_t sample, std::int64_t head) {
  const std::int64_t width = s.heads * s.head_size;
  return all.as_strided({s.context, s.head_size}, {width, 1},
                        all.storage_offset() + sample * s.context * width + head * s.head_size);
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
  tensor::fill_dropout_run(mask, row + r, 0, block.keys, shape.key, shape.dropout,
                           1 / (1 - shape.dropout));
}

/// Memory for the work on one block, of the type A.
struct Scratch {
  Scratch(const AttentionShape& shape, const at::TensorOptions& options, bool backward)
      : scores(at::empty({rows_of_block(shape.context) * shape.context}, options)),
        gradients(at::empty({backward ? scores.numel() : 0}, options)),
        dropped(at::empty({backward && shape.dropout > 0 ? scores.numel() : 0}, options)),
        mask(at::empty({shape.dropout > 0 ? shape.context : 0}, options)),
        row(at::empty({rows_of_block(shape.context)}, options)) {}

  Tensor scores;
  Tensor gradients;  // of the scores
  Tensor dropped;    // the scores after dropout
  Tensor mask;       // of one row
  Tensor row;        // a number for each row
};

/// The number of a row of scores among those of all samples and heads.
std::int64_t row_number(const AttentionShape& s, std::int64_t sample, std::int64_t head,
                        std::int64_t position) {
  return ((s.first_sample + sample) * s.all_heads + s.first_head + head) * s.context + position;
}

template <class A>
void forward_head(const AttentionShape& s, const Head& head, Tensor& out, A* logsum,
                  const Scratch& scratch, std::int64_t first_row) {
  const A scale = 1 / std::sqrt(static_cast<A>(s.head_size));
  A* inverse = elements<A>(scratch.row);
  for (std::int64_t i = 0; i < blocks_of(s.context); ++i) {
    const ScoreBlock block = block_at(i, s.context);
    Tensor scores = scores_in(scratch.scores, block);
    at::mm_out(scores, part(head.q, block.first, block.rows), part(head.k, 0, block.keys).t());
    tensor::softmax_block(elements<A>(scores), block, scale, logsum + block.first, inverse);
    if (s.dropout > 0) {
      A* row = elements<A>(scores);
      for (std::int64_t r = 0; r < block.rows; ++r, row += block.keys) {
        draw(elements<A>(scratch.mask), block, s, first_row + block.first, r);
        tensor::multiply_into(row, row, elements<A>(scratch.mask), block.keys);
      }
    }
    Tensor rows = part(out, block.first, block.rows);
    at::mm_out(rows, scores, part(head.v, 0, block.keys));
    tensor::scale_rows(elements<A>(rows), block.rows, s.head_size, rows.stride(0), inverse);
  }
}

template <class A>
void backward_head(const AttentionShape& s, const Head& head, const Tensor& out, const Tensor& dout,
                   const A* logsum, const Scratch& scratch, std::int64_t first_row,
                   Head& gradient) {
  const A scale = 1 / std::sqrt(static_cast<A>(s.head_size));
  // The last block comes first: it uses all keys, so that its products set the values that the
  // other blocks add to.
  const std::int64_t last = blocks_of(s.context) - 1;
  for (std::int64_t i = last; i >= 0; --i) {
    const ScoreBlock block = block_at(i, s.context);
    const Tensor q = part(head.q, block.first, block.rows);
    const Tensor k = part(head.k, 0, block.keys);
    const Tensor dout_rows = part(dout, block.first, block.rows);
    Tensor p = scores_in(scratch.scores, block);
    Tensor dp = scores_in(scratch.gradients, block);
    at::mm_out(p, q, k.t());
    tensor::softmax_again(elements<A>(p), block, scale, logsum + block.first);
    at::mm_out(dp, dout_rows, part(head.v, 0, block.keys).t());
    A* dots = elements<A>(scratch.row);
    tensor::row_dots(elements<A>(dout_rows), elements<A>(part(out, block.first, block.rows)),
                     block.rows, s.head_size, out.stride(0), dots);
    Tensor dropped = p;
    if (s.dropout > 0) {
      dropped = scores_in(scratch.dropped, block);
      for (std::int64_t r = 0; r < block.rows; ++r) {
        const std::int64_t at = r * block.keys;
        const A* mask = elements<A>(scratch.mask);
        draw(elements<A>(scratch.mask), block, s, first_row + block.first, r);
        tensor::multiply_into(elements<A>(dropped) + at, elements<A>(p) + at, mask, block.keys);
        tensor::multiply_into(elements<A>(dp) + at, elements<A>(dp) + at, mask, block.keys);
      }
    }
    const double keep = i == last ? 0 : 1;
    Tensor dv = part(gradient.v, 0, block.keys);
    at::addmm_out(dv, dv, dropped.t(), dout_rows, keep);
    tensor::softmax_gradient(elements<A>(dp), elements<A>(p), block, scale, dots);
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
  FOURFOLD_CHECK(tensor.scalar_type() == at::kFloat);
  body(float{});
}

}  // namespace

void attention_forward(const AttentionShape& shape, const Tensor& qkv, Tensor& out,
                       Tensor& logsum) {
  const at::AutoDispatchBelowADInplaceOrView direct;  // small products: every microsecond counts
  by_type(qkv, [&]<class A>(A) {
    const Scratch scratch(shape, qkv.options(), false);
    for_each_head(shape, [&](std::int64_t sample, std::int64_t head) {
      Tensor rows = rows_of(out, shape, sample, head);
      forward_head(shape, head_of(qkv, shape, sample, head), rows,
                   elements<A>(logsum) + (sample * shape.heads + head) * shape.context, scratch,
                   row_number(shape, sample, head, 0));
    });
  });
}

void attention_backward(const AttentionShape& shape, const Tensor& qkv, const Tensor& out,
                        const Tensor& logsum, const Tensor& dout, Tensor& dqkv) {
  const at::AutoDispatchBelowADInplaceOrView direct;  // small products: every microsecond counts
  by_type(qkv, [&]<class A>(A) {
    const Scratch scratch(shape, qkv.options(), true);
    for_each_head(shape, [&](std::int64_t sample, std::int64_t head) {
      Head gradient = head_of(dqkv, shape, sample, head);
      backward_head(shape, head_of(qkv, shape, sample, head), rows_of(out, shape, sample, head),
                    rows_of(dout, shape, sample, head),
                    elements<const A>(logsum) + (sample * shape.heads + head) * shape.context,
                    scratch, row_number(shape, sample, head, 0), gradient);
    });
  });
}

std::int64_t computed_scores(std::int64_t context) {
  std::int64_t scores = 0;
  for (std::int64_t i = 0; i < blocks_of(context); ++i) {
    const ScoreBlock block = block_at(i, context);
    scores += block.rows * block.keys;
  }
  return scores;
}

std::int64_t attention_scratch(const AttentionShape& shape, bool backward) {
  const Scratch scratch(shape, at::TensorOptions().device(at::kMeta), backward);
  return scratch.scores.numel() + scratch.gradients.numel() + scratch.dropped.numel() +
         scratch.mask.numel() + scratch.row.numel();
}

}  // namespace fourfold::nn
