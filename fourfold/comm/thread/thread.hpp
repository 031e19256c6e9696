// Ranks as threads of one process: for tests, for grids larger than the machine, and for the
// curious. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fourfold/comm/world.hpp"

namespace fourfold::comm::thread {

/// Runs `body` on `ranks` threads, each with its own World, and returns when all have ended. When
/// one throws, the communication of all others throws CommError, and the first one's exception is
/// rethrown here.
void run(int ranks, const std::function<void(World&)>& body, const Options& options = {});

}  // namespace fourfold::comm::thread
