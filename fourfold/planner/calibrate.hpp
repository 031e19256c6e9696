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
  int rounds = 5;               ///< of each measurement (docs/planning.md)
  /// Called on the first rank before each measurement.
  std::function<void(const std::string&)> show;
  /// Called on the first rank with what the user should know about the result.
  std::function<void(const std::string&)> say;
};

/// Measures products by size and type, attention, the memory, what communication costs compute, and
/// the latency and bandwidth of every kind of group of ranks while all its siblings communicate.
/// Collective; all ranks get the same result. Throws ConfigError if the hosts are uneven
/// (hosts.hpp).
cluster::Cluster calibrate(comm::World& world, const CalibrationSpec& spec);

}  // namespace fourfold::planner
