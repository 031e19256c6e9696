// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/mixed_sums.hpp"

#include <ATen/ops/zeros.h>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

void add_to(const Tensor& sum, const Tensor& part) {
  FOURFOLD_CHECK(sum.sizes() == part.sizes());
  if (sum.is_meta() || sum.numel() == 0) return;
  FOURFOLD_CHECK((sum.scalar_type() == at::kDouble) == (part.scalar_type() == at::kDouble),
                 "a sum of double and a narrower type");
  functions_of(sum).add_to(sum, part);
}

void add_to_rows_of(const Tensor& matrix, const Tensor& vector) {
  FOURFOLD_CHECK(matrix.is_contiguous() && vector.numel() == matrix.size(1));
  if (matrix.is_meta() || matrix.numel() == 0) return;
  FOURFOLD_CHECK(vector.scalar_type() == statistics_type(matrix.scalar_type()));
  functions_of(matrix).add_to_rows_of(matrix, vector);
}

Tensor column_sums(const Tensor& matrix) {
  FOURFOLD_CHECK(matrix.is_contiguous());
  if (matrix.is_meta()) {
    const auto options = matrix.options().dtype(statistics_type(matrix.scalar_type()));
    return at::zeros({matrix.size(1)}, options);
  }
  return functions_of(matrix).column_sums(matrix);
}

}  // namespace fourfold::kernels
