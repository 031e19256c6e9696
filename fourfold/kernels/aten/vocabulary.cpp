// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>

#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

namespace {

/// The rows of tokens in the part of the table that is here.
struct Places {
  Places(const Tensor& tokens, const grid::Range& here)
      : row(tokens.reshape({-1}).sub(here.begin)),
        is_here(at::logical_and(row.ge(0), row.lt(here.size()))) {}
  Tensor row;
  Tensor is_here;

  /// Row 0 stands for tokens that are not here.
  Tensor safe_row() const { return row.masked_fill(is_here.logical_not(), 0); }
};

}  // namespace

void lookup_rows(const Tensor& table, const Tensor& tokens, const grid::Range& here, Tensor& out) {
  const NoGraph guard;
  if (here.size() == 0) {
    out.zero_();
    return;
  }
  const Places places(tokens, here);
  const std::int64_t width = out.size(2);
  const Tensor rows = table.index_select(0, places.safe_row())
                          .masked_fill_(column(places.is_here.logical_not()), 0)
                          .narrow(1, 0, out.size(0) * width);
  out.copy_(rows.view({-1, out.size(0), width}).transpose(0, 1));
}

void add_to_rows(const Tensor& gradient, const Tensor& tokens, const grid::Range& here,
                 Tensor& sum) {
  const NoGraph guard;
  if (here.size() == 0 || tokens.numel() == 0) return;
  const Places places(tokens, here);
  const std::int64_t rows = sum.size(0);
  // Tokens that are not here go to one row more, which is left out.
  const Tensor index = places.row.masked_fill(places.is_here.logical_not(), rows);
  const Tensor upstream = wide(gradient).transpose(0, 1).flatten(1).contiguous();
  const Tensor found = at::embedding_dense_backward(upstream, index, rows + 1, rows, false);
  sum.narrow(1, 0, upstream.size(1)).add_(found.narrow(0, 0, rows));
}

void row_maxima(const Tensor& logits, std::int64_t valid, Tensor& largest) {
  const NoGraph guard;
  if (valid == 0) {
    largest.fill_(-std::numeric_limits<double>::infinity());
    return;
  }
  largest.view({-1}).copy_(logits.narrow(1, 0, valid).amax(1));
}

void exponentials(Tensor& logits, std::int64_t valid, const Tensor& largest, const Tensor& targets,
                  const grid::Range& here, Tensor& sums) {
  const NoGraph guard;
  const std::int64_t rows = logits.size(0);
  const Tensor out = sums.view({2, rows});
  if (here.size() == 0) {
    out.select(0, 1).zero_();
  } else {
    const Places places(targets, here);
    const Tensor wanted = wide(logits.gather(1, column(places.safe_row()))).view({rows});
    const Tensor distance = at::sub(wanted, largest.view({-1}));
    out.select(0, 1).copy_(distance.masked_fill_(places.is_here.logical_not(), 0));
  }
  const Tensor values = at::sub(wide(logits.narrow(1, 0, valid)), column(largest)).exp_();
  out.select(0, 0).copy_(values.sum(1));
  logits.narrow(1, 0, valid).copy_(values);
  logits.narrow(1, valid, logits.size(1) - valid).zero_();
}

void softmax_loss_gradient(Tensor& exponentials, const Tensor& sums, const Tensor& targets,
                           const grid::Range& here, double weight) {
  const NoGraph guard;
  const Tensor totals = sums.view({2, exponentials.size(0)});
  const Tensor sum = totals.select(0, 0);
  exponentials.copy_(wide(exponentials).mul(column(sum.reciprocal().mul_(weight))));
  if (here.size() == 0) return;
  const Places places(targets, here);
  const Tensor place = column(places.safe_row());
  // This uses numbers that are not rounded: for a likely target, p - 1 is a small difference.
  const Tensor at_target = totals.select(0, 1).exp().div_(sum).sub_(1).mul_(weight);
  const Tensor found = column(at_target.to(exponentials.scalar_type()));
  const Tensor before = exponentials.gather(1, place);
  exponentials.scatter_(1, place, at::where(column(places.is_here), found, before));
}

}  // namespace fourfold::kernels::aten
