// The plan for the machine that a run runs on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/planner/evaluate.hpp"
#include "fourfold/train/run.hpp"

namespace fourfold::planner {

/// This machine or job as a cluster: from the user's cache, or else measured now and put there. A
/// cached one is measured again if its links are no longer as fast as they were. Collective.
cluster::Cluster this_cluster(comm::World& world, const config::DeviceConfig& device,
                              const train::Console& console);

/// The plan to run of the best ones, of which there is at least one. Plans whose predictions are
/// close to each other differ by less than predictions err. What errs are waits, and mostly they
/// take longer than predicted: so of such plans the one that waits less is the better choice.
const Predicted& surest(const std::vector<Predicted>& plans);

/// Gives a configuration with the strategy `auto` and no grid the best plan for this machine, and
/// other configurations their grid as `train::settle_grid` does, with what can be predicted of them
/// (predict.hpp). Where the hosts are uneven (hosts.hpp) nothing is planned, and `auto` takes the
/// grid of `4d`. A `train::Choose`. Collective.
std::string choose(comm::World& world, config::Config& config,
                   std::optional<train::Prediction>& predicted, const train::Console& console);

}  // namespace fourfold::planner
