// SPDX-License-Identifier: Apache-2.0
#include "fourfold/grid/layout.hpp"

#include <array>
#include <ostream>

#include "fourfold/base/check.hpp"

namespace fourfold::grid {

namespace {
std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
}  // namespace

std::string to_string(const Block& block) {
  std::vector<std::string> parts;
  for (const Range& range : block.ranges) parts.push_back(concat(range.begin, ":", range.end));
  return "[" + join(parts, ", ") + "]";
}
std::ostream& operator<<(std::ostream& out, const Block& block) {
  return out << to_string(block);
}

Layout::Layout(std::vector<Axes> dims, Axes partial)
    : dims_(std::move(dims)), partial_(std::move(partial)) {
  std::array<int, kAxisCount> uses{};
  for (const Axes& axes : dims_) {
    for (Axis axis : axes) ++uses[index_of(axis)];
  }
  for (Axis axis : partial_) ++uses[index_of(axis)];
  for (Axis axis : kAllAxes) {
    FOURFOLD_CHECK(uses[index_of(axis)] <= 1, "axis ", axis, " is used twice in ",
                   to_string(*this));
  }
}

bool Layout::splits(Axis axis) const {
  for (const Axes& axes : dims_) {
    if (axes.contains(axis)) return true;
  }
  return false;
}

Range range_along(std::int64_t n, const Axes& axes, const Grid& grid, const Coord& coord) {
  Range range{0, n};
  std::int64_t block = n;  // the padded size at this level
  for (Axis axis : axes) {
    block = ceil_div(block, grid.size(axis));
    const std::int64_t begin = range.begin + coord[axis] * block;
    range = {std::min(begin, range.end), std::min(begin + block, range.end)};
  }
  return range;
}

std::int64_t shard_size(std::int64_t n, const Axes& axes, const Grid& grid) {
  for (Axis axis : axes) n = ceil_div(n, grid.size(axis));
  return n;
}

Shape Layout::shard_shape(const Shape& global, const Grid& grid) const {
  FOURFOLD_CHECK_EQ(global.size(), rank(), "dimensions of the shape and of ", *this);
  Shape shape(global.size());
  for (std::size_t d = 0; d < global.size(); ++d) shape[d] = shard_size(global[d], dims_[d], grid);
  return shape;
}

Block Layout::block(const Shape& global, const Grid& grid, const Coord& coord) const {
  FOURFOLD_CHECK_EQ(global.size(), rank(), "dimensions of the shape and of ", *this);
  Block block;
  for (std::size_t d = 0; d < global.size(); ++d) {
    block.ranges.push_back(range_along(global[d], dims_[d], grid, coord));
  }
  return block;
}

std::vector<int> Layout::replicas(const Grid& grid, const Coord& coord) const {
  std::vector<Axis> free;  // coarsest stride first, so that the group is in rank order
  for (std::size_t i = kAxisCount; i-- > 0;) {
    const Axis axis = grid.placement()[i];
    if (!splits(axis) && !partial_.contains(axis)) free.push_back(axis);
  }
  return grid.group(Axes(std::move(free)), grid.rank_of(coord)).members;
}

std::string to_string(const Layout& layout) {
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < layout.rank(); ++d) {
    dims.push_back(layout.dim(d).empty() ? "-" : to_string(layout.dim(d)));
  }
  std::string text = "[" + join(dims, ", ") + "]";
  if (!layout.partial().empty()) text += " partial(" + to_string(layout.partial()) + ")";
  return text;
}
std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << to_string(layout);
}

}  // namespace fourfold::grid
