// Sums of tensors of different types, without the temporary copies that libtorch makes for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

/// sum += part. Both have the same shape. They are matrices whose rows may lie apart, or contiguous
/// tensors.
void add_to(const Tensor& sum, const Tensor& part);

/// Adds the vector to every row of a contiguous matrix. The type of the vector must be at least as
/// wide.
void add_to_rows_of(const Tensor& matrix, const Tensor& vector);

/// The sum of each column of a contiguous matrix, in a type of at least float.
Tensor column_sums(const Tensor& matrix);

}  // namespace fourfold::kernels
