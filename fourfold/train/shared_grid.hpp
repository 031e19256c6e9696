// The grid of a run on all its ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "fourfold/comm/world.hpp"
#include "fourfold/train/settle.hpp"

namespace fourfold::train {

/// Gives a configuration its grid, like settle_grid.
using SettleGrid = std::function<std::string(config::Config& config, const RankMemory& memory)>;

/// Calls `settle` on the first rank, with the memory of the rank that has the least, and gives all
/// ranks its result. Only one rank does this because finding a grid takes many dry runs, ranks may
/// share a core, and all ranks must use the same grid. If `settle` throws ConfigError, it is thrown
/// on all ranks. Collective.
std::string settle_on_all_ranks(comm::World& world, config::Config& config,
                                const SettleGrid& settle);

}  // namespace fourfold::train
