// Measures the ranks of a job, and describes them as a cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/config/config.hpp"

namespace fourfold::planner {

struct CalibrationSpec {
  std::string name = "here";
  config::DeviceConfig device;  ///< rates that are emulated are measured as such
  int rounds = 5;               ///< the median of so many counts
  /// Called on the first rank before each measurement.
  std::function<void(const std::string&)> show;
};

/// Measures products by size and type, attention, the memory, what communication costs compute, and
/// the latency and bandwidth of every kind of group of ranks while all its siblings communicate.
/// Collective; all ranks get the same result. Throws ConfigError unless every host has the same
/// number of ranks, in order.
cluster::Cluster calibrate(comm::World& world, const CalibrationSpec& spec);

/// The number of ranks on each host. Throws ConfigError like `calibrate`.
int ranks_per_host(const comm::World& world);

}  // namespace fourfold::planner
