// The calibrations that the user's cache keeps: one for each machine or job and number of ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/config/config.hpp"

namespace fourfold::planner {

/// This machine or job as it was measured before, with as many ranks and the same emulated device.
/// Nothing is measured. Empty where it was not measured, where the file is of another version, and
/// where hosts have different numbers of ranks. Collective; all ranks get the same.
std::optional<cluster::Cluster> cached_cluster(comm::World& world,
                                               const config::DeviceConfig& device);

/// Keeps what was measured for later runs, if this is the first rank. Returns the file, or an empty
/// text where it cannot be written: the next run then measures again.
std::string put_into_cache(const comm::World& world, const config::DeviceConfig& device,
                           const cluster::Cluster& cluster);

}  // namespace fourfold::planner
