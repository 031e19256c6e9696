// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/column_pieces.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

namespace {

void check_pieces(const Tensor& rows, const Tensor& stacked) {
  FOURFOLD_CHECK(rows.is_contiguous() && stacked.is_contiguous() &&
                 rows.scalar_type() == stacked.scalar_type());
  FOURFOLD_CHECK(rows.numel() == stacked.numel() && rows.size(1) % stacked.size(1) == 0);
}

}  // namespace

void merge_pieces(const Tensor& stacked, Tensor& rows) {
  if (rows.numel() == 0) return;
  check_pieces(rows, stacked);
  if (rows.is_meta()) return;
  functions_of(rows).merge_pieces(stacked, rows);
}

void stack_pieces(const Tensor& rows, Tensor& stacked) {
  if (rows.numel() == 0) return;
  check_pieces(rows, stacked);
  if (rows.is_meta()) return;
  functions_of(rows).stack_pieces(rows, stacked);
}

}  // namespace fourfold::kernels
