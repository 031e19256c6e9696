// The layouts of the matrices and vectors of 3-D products on the grid: three kinds, each in two
// directions. README.md has pictures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/grid/layout.hpp"

namespace matrix {

namespace grid = fourfold::grid;
using grid::Axis;

/// Rows are split over the axis that is named first, then over the next. `a` is x or y, and b is
/// the other one.
enum class Kind {
  kActivations,  ///< columns split over a, rows over z and then b
  kWeight,       ///< rows split over a and then z, columns over b
  kVector,       ///< like the columns of activations: split over a, then b, then z
};

/// Returns y for x and x for y.
constexpr Axis across(Axis axis) {
  return axis == Axis::kX ? Axis::kY : Axis::kX;
}

/// The layout of a kind. Each kind splits over x, y and z, so that every rank has a part of its
/// own.
grid::Layout layout_of(Kind kind, Axis axis);

/// "activations with columns on x", "a weight with rows on x", "a vector on x".
std::string name_of(Kind kind, Axis axis);

/// "8x6".
std::string to_string(const grid::Shape& shape);

/// Throws ConfigError when the parts of a tensor of that shape would not have the same size on all
/// ranks.
void check_divides(const grid::Grid& grid, Kind kind, Axis axis, const grid::Shape& shape);

}  // namespace matrix
