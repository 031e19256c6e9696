// A world that executes nothing: one rank of any grid, for dry runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/world.hpp"

namespace fourfold::comm::recording {

/// Operations are done at once and touch no memory (views may have null data). Counters and the
/// recorded schedule are those of a real run of `rank`, times aside.
World open(int rank, int size);

}  // namespace fourfold::comm::recording
