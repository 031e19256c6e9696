// Tensors small enough to look at every element, and layouts at random.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "fourfold/grid/layout.hpp"

namespace fourfold::test {

inline std::int64_t elements_of(const grid::Shape& shape) {
  std::int64_t product = 1;
  for (std::int64_t size : shape) product *= size;
  return product;
}

/// The place of the element at `index` in a dense row-major tensor of `shape`.
inline std::size_t offset_of(const grid::Shape& shape, const std::vector<std::int64_t>& index) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + index[d];
  return static_cast<std::size_t>(offset);
}

/// Calls `body` with the global index of each element of `block`.
template <class Body>
void for_each_element(const grid::Block& block, const Body& body) {
  if (block.elements() == 0) return;
  std::vector<std::int64_t> index;
  for (const grid::Range& range : block.ranges) index.push_back(range.begin);
  for (;;) {
    body(std::as_const(index));
    std::size_t d = index.size();
    while (d > 0 && ++index[d - 1] == block.ranges[d - 1].end) {
      index[d - 1] = block.ranges[d - 1].begin;
      --d;
    }
    if (d == 0) return;
  }
}

/// Each axis splits one of `dims` dimensions or replicates, in an order at random.
inline grid::Layout random_layout(std::size_t dims, std::mt19937& random) {
  std::vector<grid::Axis> axes(grid::kAllAxes.begin(), grid::kAllAxes.end());
  std::shuffle(axes.begin(), axes.end(), random);
  std::vector<std::vector<grid::Axis>> lists(dims + 1);  // the last one replicates
  for (grid::Axis axis : axes) lists[random() % lists.size()].push_back(axis);
  lists.pop_back();
  std::vector<grid::Axes> split;
  for (auto& list : lists) split.emplace_back(std::move(list));
  return grid::Layout(std::move(split));
}

/// A grid of `ranks` with sizes and placement at random.
inline grid::Grid random_grid(int ranks, std::mt19937& random) {
  const grid::Axes axes(std::vector<grid::Axis>(grid::kAllAxes.begin(), grid::kAllAxes.end()));
  const auto all = grid::factorisations(ranks, axes);
  grid::Placement placement = grid::kDefaultPlacement;
  std::shuffle(placement.begin(), placement.end(), random);
  return grid::Grid(all[random() % all.size()], placement);
}

}  // namespace fourfold::test
