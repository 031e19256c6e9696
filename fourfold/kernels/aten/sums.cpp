// Sums of tensors of different types.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/sum.h>

#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

void add_to(const Tensor& sum, const Tensor& part) {
  const NoGraph guard;
  sum.add_(part);
}

void add_to_rows_of(const Tensor& matrix, const Tensor& vector) {
  const NoGraph guard;
  matrix.add_(vector.view({1, -1}));
}

Tensor column_sums(const Tensor& matrix) {
  const NoGraph guard;
  return at::sum(matrix, {0}, false, statistics_type(matrix.scalar_type()));
}

}  // namespace fourfold::kernels::aten
