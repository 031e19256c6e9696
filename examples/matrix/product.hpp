// Products of matrices that are distributed over a grid of x, y and z: the load-balanced 3-D
// algorithm, on a cube or any other box. README.md has the bytes, pictures and an example.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "matrix/sharded.hpp"

namespace matrix {

// Three matrices belong to a product of direction c (x, or y if it is swapped; p is the other one):
//   in      M×K  Activations<c>
//   weight  K×N  Weight<c>
//   out     M×N  Activations<p>
// Each of the three functions computes one of these matrices from the other two, and so does each
// of their gradients: no other layouts arise. A product gathers its operands (in over p, weight
// over z, out over c), multiplies, and reduces its result over the axis over which it would be
// gathered. Each rank is left with its part.
//
// The functions are differentiable in both operands. The graph keeps local parts only. The backward
// pass gathers the gradient of the result once for both gradients, and gathers the operands again.
// The second product overlaps with the sum of the first product's result. Both gradients are
// complete when the backward pass returns. Gradients that are not needed are neither computed nor
// communicated. So all ranks must require the same gradients, and run backward in the same order. A
// loss is a sum over ranks: each rank starts the backward pass from its own summand.
//
// All functions throw InvariantError when the operands are on different meshes, of different types
// or of sizes that do not fit, and ConfigError when the result cannot be split evenly. Backward
// with create_graph throws InvariantError: gradients have no graph.

/// Which of the three matrices a product computes.
enum class Part { kIn, kWeight, kOut };

/// This rank's part of the result. It is for the functions below, which know the types.
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

}  // namespace matrix
