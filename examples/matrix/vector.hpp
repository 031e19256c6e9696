// Adds a vector to each row of a matrix, or multiplies each row by it, on a grid of x, y and z.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "matrix/sharded.hpp"

namespace matrix {

// The vector is gathered over the two axes that do not split the matrix's columns, in one
// operation. Its gradient is made of sums of columns, which are summed over the same ranks in at
// least float. The rules for gradients and exceptions are those of product.hpp.

enum class Elementwise { kAdd, kMultiply };

/// This rank's part of the result. It is for the functions below, which know the types.
Tensor elementwise_part(Elementwise op, Axis axis, const Shard& matrix, const Shard& vector);

/// C[i][j] = A[i][j] + v[j].
template <Axis kAxis>
Activations<kAxis> add(const Activations<kAxis>& a, const Vector<kAxis>& v) {
  return a.with(elementwise_part(Elementwise::kAdd, kAxis, a, v));
}

/// C[i][j] = A[i][j] · v[j].
template <Axis kAxis>
Activations<kAxis> multiply(const Activations<kAxis>& a, const Vector<kAxis>& v) {
  return a.with(elementwise_part(Elementwise::kMultiply, kAxis, a, v));
}

}  // namespace matrix
