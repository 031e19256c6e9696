// Columns in pieces that lie one below the other, as they are communicated, and side by side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

// `stacked` has as many columns as a piece, and below each other the rows of one piece after the
// other; `rows` has the columns of all pieces. Both are contiguous and of one type. For meta
// tensors nothing is done.

void merge_pieces(const Tensor& stacked, Tensor& rows);
void stack_pieces(const Tensor& rows, Tensor& stacked);

}  // namespace fourfold::kernels
