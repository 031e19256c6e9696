// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/placements.hpp"

#include <algorithm>
#include <set>

#include "fourfold/cluster/group_shape.hpp"

namespace fourfold::planner {

using grid::Axes;
using grid::Axis;
using grid::Placement;

std::vector<Placement> placements_of(const grid::Sizes& sizes, const Placement& first,
                                     int gpus_per_host) {
  const grid::Grid start(sizes, first);
  std::vector<Axis> used;
  for (const Axis axis : first) {
    if (start.size(axis) > 1) used.push_back(axis);
  }
  std::sort(used.begin(), used.end());
  // Groups over one axis and over the pairs that layers use: the rest follows from these.
  const auto shapes_of = [&](const grid::Grid& grid) {
    std::vector<cluster::GroupShape> shapes;
    for (const Axes& axes :
         {Axes(Axis::kX), Axes(Axis::kY), Axes(Axis::kZ), Axes(Axis::kData), Axes(Axis::kPipe),
          Axes{Axis::kY, Axis::kX}, Axes{Axis::kX, Axis::kZ}, Axes{Axis::kY, Axis::kZ}}) {
      shapes.push_back(cluster::shape_of(grid, axes, gpus_per_host));
    }
    return shapes;
  };
  std::vector<Placement> found = {first};
  std::set<std::vector<cluster::GroupShape>> seen = {shapes_of(start)};
  do {
    Placement placement = first;
    std::size_t next = 0;
    for (Axis& axis : placement) {
      if (start.size(axis) > 1) axis = used[next++];
    }
    if (seen.insert(shapes_of(grid::Grid(sizes, placement))).second) found.push_back(placement);
  } while (std::next_permutation(used.begin(), used.end()));
  return found;
}

}  // namespace fourfold::planner
