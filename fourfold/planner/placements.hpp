// The ways to place the axes of a grid on hosts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/grid/grid.hpp"

namespace fourfold::planner {

/// The placements of a grid that differ in what crosses hosts, the given one first.
std::vector<grid::Placement> placements_of(const grid::Sizes& sizes, const grid::Placement& first,
                                           int gpus_per_host);

}  // namespace fourfold::planner
