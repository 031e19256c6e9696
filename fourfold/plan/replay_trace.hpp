// A replayed step as traces of ranks, which reports draw.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/plan/simulation.hpp"
#include "fourfold/report/rank_trace.hpp"

namespace fourfold::plan {

/// One step of the first rank of each place. Operations belong to it that end in it.
std::vector<report::RankTrace> traces_of(const Simulation& simulation, std::size_t step,
                                         const grid::Grid& grid, const cluster::Cluster& cluster);

}  // namespace fourfold::plan
