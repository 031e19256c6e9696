// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/mesh.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/base/processor.hpp"

namespace fourfold::tensor {

namespace {

const grid::Grid& checked(const grid::Grid& grid, const comm::World& world) {
  if (grid.ranks() != world.size()) {
    throw ConfigError(
        concat("the grid ", grid, " needs ", grid.ranks(), " ranks, and there are ", world.size()));
  }
  return grid;
}

}  // namespace

Mesh::Mesh(comm::World& world, const grid::Grid& grid, const Overlap& overlap, c10::Device device)
    : world_(&world),
      grid_(checked(grid, world)),
      dry_(!world.executes()),
      device_(dry_ ? c10::Device(c10::kMeta) : device),
      overlap_(overlap),
      groups_(world, grid) {
  check_choices();  // checked here, where the error is reported as the user's, not in the first
                    // kernel
  coord_ = grid.coord_of(world.rank());
}

}  // namespace fourfold::tensor
