// The plan for the machine that a run runs on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/train/run.hpp"

namespace fourfold::planner {

/// This machine or job as a cluster: from the user's cache, or else measured now and put there. A
/// cached one is measured again if its links are no longer as fast as they were. Collective.
cluster::Cluster this_cluster(comm::World& world, const config::DeviceConfig& device,
                              const train::Console& console);

/// Gives a configuration with the strategy `auto` and no grid the best plan for this machine, and
/// other configurations their grid as `train::settle_grid` does; these are predicted if the machine
/// was measured before (predict.hpp). A `train::Choose`. Collective.
std::string choose(comm::World& world, config::Config& config,
                   std::optional<train::Prediction>& predicted, const train::Console& console);

}  // namespace fourfold::planner
