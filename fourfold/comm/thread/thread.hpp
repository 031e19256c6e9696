// Ranks as threads of one process, for tests and for grids larger than the machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fourfold/comm/world.hpp"

namespace fourfold::comm::thread {

/// Runs `body` on `ranks` threads, each with its own World, and returns when all have ended. When
/// one rank throws, the communication of all other ranks throws CommError, and the exception of the
/// first rank that threw is rethrown here.
void run(int ranks, const std::function<void(World&)>& body, const Options& options = {});

}  // namespace fourfold::comm::thread
