// How the matrices and vectors of 3-D products lie on the grid: three kinds, each in two
// directions. Pictures: docs/matrix.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/grid/layout.hpp"

namespace fourfold::matrix {

using grid::Axis;

/// Rows are split coarse first. `a` is x or y, and b the other one.
enum class Kind {
  kActivations,  ///< columns split over a, rows over z and then b
  kWeight,       ///< rows split over a and then z, columns over b
  kVector,       ///< of the columns of activations: over a, then b, then z
};

/// y for x, x for y.
constexpr Axis across(Axis axis) {
  return axis == Axis::kX ? Axis::kY : Axis::kX;
}

/// Each kind splits over x, y and z: every rank has a part of its own.
grid::Layout layout_of(Kind kind, Axis axis);

/// "activations with columns on x", "a weight with rows on x", "a vector on x".
std::string name_of(Kind kind, Axis axis);

/// "8x6".
std::string to_string(const grid::Shape& shape);

/// Throws ConfigError when the ranks' parts of a tensor of that shape would not be of one size.
void check_divides(const grid::Grid& grid, Kind kind, Axis axis, const grid::Shape& shape);

}  // namespace fourfold::matrix
