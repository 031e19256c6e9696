// A vector added to each row of a matrix, or multiplied with it, on a grid of x, y and z.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/matrix/sharded.hpp"

namespace fourfold::matrix {

// The vector is brought together over the two axes that do not split the matrix's columns, in one
// operation; its gradient is the sums of columns, summed over the same ranks, in at least float.
// Rules of gradients, and what is thrown, are those of product.hpp.

enum class Elementwise { kAdd, kMultiply };

/// This rank's part of the result. For the functions below, which know the types.
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

}  // namespace fourfold::matrix
