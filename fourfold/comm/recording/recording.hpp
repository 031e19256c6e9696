// A world that executes nothing. It stands for one rank of any grid, for dry runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/world.hpp"

namespace fourfold::comm::recording {

/// Operations are done at once and touch no memory (views may have null data). Counters and the
/// recorded schedule are those of a real run of `rank`, except for times. The run is taken to be on
/// hosts with `ranks_per_host` ranks each (0: all ranks on one host); only the number of messages
/// depends on the hosts.
World open(int rank, int size, int ranks_per_host = 0);

}  // namespace fourfold::comm::recording
