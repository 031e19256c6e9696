// What a program does as one rank of a job, from joining it to its exit status. Part of the library
// fourfold::comm_mpi, which a program links to have processes as ranks: docs/clusters.md, and
// examples/05_ranks_of_mpi.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "fourfold/comm/world.hpp"

namespace fourfold::comm::mpi {

/// Receives one line for the user.
using Report = std::function<void(const std::string&)>;

/// Joins the world, runs `body` and leaves with all others; returns 0. When `body` or the
/// communication throws, `report` receives one line and the job ends on all ranks with the error's
/// exit status: 2 for a ConfigError, else 1. However many ranks throw, one of them reports: of
/// those that threw first, the lowest.
int run(const std::function<void(World&)>& body, const Report& report, const Options& options = {});

}  // namespace fourfold::comm::mpi
