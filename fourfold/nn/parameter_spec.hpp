// Describes a parameter before it exists on any rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/grid/layout.hpp"
#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::nn {

using at::Tensor;
using tensor::Mesh;

/// The type in which the layers compute, and the type in which parameters and their gradients are
/// kept.
struct Precision {
  at::ScalarType compute = at::kFloat;
  at::ScalarType master = at::kFloat;

  static Precision float64() { return {at::kDouble, at::kDouble}; }
  static Precision float32() { return {at::kFloat, at::kFloat}; }
  static Precision bf16() { return {at::kBFloat16, at::kFloat}; }
};

/// Each of the axes x, y, z and data that has more than one rank must be in one of `kept`,
/// `gathered`, `columns` and `replicas`. This says what the ranks along the axis have, and how
/// their gradients are combined (docs/gradients.md).
struct ParameterSpec {
  std::string name;
  grid::Shape shape;     ///< the shape of the global tensor
  grid::Axes kept = {};  ///< axes that split the first dimension, also when the parameter is used
  grid::Axes gathered = {};  ///< axes that split it further, and are gathered for a use
  grid::Axes columns = {};   ///< axes that split the last dimension, if it is not the first
  grid::Axes summed = {};    ///< the axes of `gathered` over which the uses have different rows
  /// All ranks along these axes have the same shard, but their uses have different rows. The
  /// optimizer sums the gradients over these axes.
  grid::Axes replicas = grid::Axis::kData;
  double deviation = 0;  ///< of the initial values, which are normal around `mean`
  double mean = 0;

  grid::Layout layout() const;
  /// Throws InvariantError, with the name, unless layers and the optimizer can work with the
  /// parameter on that mesh.
  void check(const Mesh& mesh) const;
};

}  // namespace fourfold::nn
