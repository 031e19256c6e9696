// Products of matrices that are spread over a grid of x, y and z: the load-balanced 3-D algorithm,
// on a cube or any other box. Bytes, pictures and an example: docs/matrix.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/matrix/sharded.hpp"

namespace fourfold::matrix {

// Three matrices belong to a product of direction c (x, or y if it is swapped; p is the other one):
//   in      M×K  Activations<c>
//   weight  K×N  Weight<c>
//   out     M×N  Activations<p>
// Each of the three functions makes one of them out of the other two, and so does each of their
// gradients: the set is closed. A product brings its operands together (in over p, weight over z,
// out over c), multiplies, and sums its result over the same axis as it would be gathered over,
// which leaves each rank its part.
//
// Differentiable in both operands. The graph keeps local parts only. Backward gathers the gradient
// of the result once for both gradients, and the operands again; one product hides the sum of the
// other's result; both are there when it returns. What needs no gradient is neither computed nor
// communicated, so all ranks must require the same gradients, and run backward in the same order.
// A loss is a sum over ranks: each starts backward from its own summand.
//
// All throw InvariantError when the operands are on different meshes, of different types or of
// sizes that do not fit, ConfigError when the result cannot be split evenly. Backward with
// create_graph throws InvariantError: gradients have no graph.

/// Which of the three a product makes.
enum class Part { kIn, kWeight, kOut };

/// The result's part of this rank. For the functions below, which know the types.
Tensor product_part(Part result, Axis direction, const Shard& a, const Shard& b);

/// A·B.
template <Axis kC>
Activations<across(kC)> ab(const Activations<kC>& a, const Weight<kC>& b) {
  Tensor local = product_part(Part::kOut, kC, a, b);
  return {a.mesh(), {a.rows(), b.columns()}, std::move(local)};
}

/// A·Bᵀ.
template <Axis kC>
Activations<kC> abt(const Activations<across(kC)>& a, const Weight<kC>& b) {
  Tensor local = product_part(Part::kIn, kC, a, b);
  return {a.mesh(), {a.rows(), b.rows()}, std::move(local)};
}

/// Aᵀ·B.
template <Axis kC>
Weight<kC> atb(const Activations<kC>& a, const Activations<across(kC)>& b) {
  Tensor local = product_part(Part::kWeight, kC, a, b);
  return {a.mesh(), {a.columns(), b.columns()}, std::move(local)};
}

}  // namespace fourfold::matrix
