// How the ranks of a job lie on its hosts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/comm/world.hpp"

namespace fourfold::planner {

/// Why these ranks are no cluster, which has as many ranks on each host, one host after the other:
/// "host a has 4 ranks, and host b has 2". Empty if they are one. `hosts` has the host of each
/// rank.
std::string uneven_hosts(const std::vector<std::string>& hosts);
std::string uneven_hosts(const comm::World& world);

/// The number of ranks on each host. Throws ConfigError if the hosts are uneven.
int ranks_per_host(const comm::World& world);

}  // namespace fourfold::planner
