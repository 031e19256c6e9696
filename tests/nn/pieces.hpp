// Whole tensors and the parts of them that ranks have, for tests of single layers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/parameter.hpp"

namespace fourfold::test {

/// A whole vector or matrix of normal numbers of float64: the same whenever it is asked for by that
/// name.
at::Tensor normal(const grid::Shape& shape, const std::string& name, double deviation = 1);

/// The layout of a vector, or of a matrix.
inline grid::Layout split_over(const grid::Axes& axes) {
  return grid::Layout(std::vector<grid::Axes>{axes});
}
inline grid::Layout split_over(const grid::Axes& rows, const grid::Axes& columns) {
  return grid::Layout(std::vector<grid::Axes>{rows, columns});
}

/// This rank's shard of a whole tensor: memory of its own. Padding has the value `padding`.
at::Tensor part_of(const tensor::Mesh& mesh, const at::Tensor& whole, const grid::Layout& layout,
                   double padding = 0);

/// The same, and it requires a gradient.
at::Tensor leaf_of(const tensor::Mesh& mesh, const at::Tensor& whole, const grid::Layout& layout);

}  // namespace fourfold::test
