// SPDX-License-Identifier: Apache-2.0
#include "matrix/layout.hpp"

#include "fourfold/base/check.hpp"

namespace matrix {

using fourfold::concat;
using fourfold::ConfigError;
using fourfold::InvariantError;
using fourfold::join;
using grid::Axes;

grid::Layout layout_of(Kind kind, Axis axis) {
  const Axis other = across(axis);
  switch (kind) {
    case Kind::kActivations:
      return grid::Layout({Axes{Axis::kZ, other}, Axes(axis)});
    case Kind::kWeight:
      return grid::Layout({Axes{axis, Axis::kZ}, Axes(other)});
    case Kind::kVector:
      return grid::Layout(std::vector<Axes>{Axes{axis, other, Axis::kZ}});
  }
  throw InvariantError("no such kind of matrix");
}

std::string name_of(Kind kind, Axis axis) {
  switch (kind) {
    case Kind::kActivations:
      return concat("activations with columns on ", axis);
    case Kind::kWeight:
      return concat("a weight with rows on ", axis);
    case Kind::kVector:
      return concat("a vector on ", axis);
  }
  return "";
}

std::string to_string(const grid::Shape& shape) {
  return join(shape, "x");
}

void check_divides(const grid::Grid& grid, Kind kind, Axis axis, const grid::Shape& shape) {
  const grid::Layout layout = layout_of(kind, axis);
  FOURFOLD_CHECK_EQ(shape.size(), layout.rank(), name_of(kind, axis), ": number of dimensions");
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const Axes& axes = layout.dim(d);
    const int parts = grid.size(axes);
    if (shape[d] > 0 && shape[d] % parts == 0) continue;
    std::vector<std::string> sizes;
    for (const Axis a : axes) sizes.push_back(concat(a, "=", grid.size(a)));
    const char* what = kind == Kind::kVector ? "elements" : d == 0 ? "rows" : "columns";
    throw ConfigError(concat(to_string(shape), " cannot be ", name_of(kind, axis), ": its ",
                             shape[d], " ", what, " are split over ", join(sizes, " and "),
                             ", and must be a positive multiple of ", parts));
  }
}

}  // namespace matrix
