// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/mesh.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/base/processor.hpp"

namespace fourfold::tensor {

namespace {

using grid::Axis;

/// Gradients in the backlog are not yet summed over data. If that sum follows, the backlog holds no
/// more bytes than are communicated along data at once.
std::int64_t backlog_window(const Overlap& overlap, const grid::Grid& grid) {
  const bool follows = overlap.data && grid.size(Axis::kData) > 1;
  return follows ? std::min(overlap.window, overlap.segment) : overlap.window;
}

const grid::Grid& checked(const grid::Grid& grid, const comm::World& world) {
  if (grid.ranks() != world.size()) {
    throw ConfigError(
        concat("the grid ", grid, " needs ", grid.ranks(), " ranks, and there are ", world.size()));
  }
  return grid;
}

}  // namespace

Mesh::Mesh(comm::World& world, const grid::Grid& grid, const Overlap& overlap)
    : world_(&world),
      grid_(checked(grid, world)),
      dry_(!world.executes()),
      overlap_(overlap),
      groups_(world, grid),
      backlog_(backlog_window(overlap, grid)),
      gathers_(overlap.weights, overlap.window),
      inputs_(overlap.halves) {
  check_choices();  // checked here, where the error is reported as the user's, not in the first
                    // kernel
  coord_ = grid.coord_of(world.rank());
}

}  // namespace fourfold::tensor
