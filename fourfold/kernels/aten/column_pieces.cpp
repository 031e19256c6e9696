// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

namespace {

/// Both as rows × pieces × the columns of a piece.
Tensor by_row(const Tensor& rows, const Tensor& stacked) {
  return rows.view({rows.size(0), -1, stacked.size(1)});
}
Tensor by_piece(const Tensor& rows, const Tensor& stacked) {
  return stacked.view({-1, rows.size(0), stacked.size(1)}).transpose(0, 1);
}

}  // namespace

void merge_pieces(const Tensor& stacked, Tensor& rows) {
  const NoGraph guard;
  by_row(rows, stacked).copy_(by_piece(rows, stacked));
}

void stack_pieces(const Tensor& rows, Tensor& stacked) {
  const NoGraph guard;
  by_piece(rows, stacked).copy_(by_row(rows, stacked));
}

}  // namespace fourfold::kernels::aten
