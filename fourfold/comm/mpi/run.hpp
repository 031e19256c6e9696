// Runs a program as one rank of a job, from joining the job to the exit status. Part of the library
// fourfold::comm_mpi, which a program links to have processes as ranks: docs/clusters.md, and
// examples/07_ranks_of_mpi.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "fourfold/comm/world.hpp"

namespace fourfold::comm::mpi {

/// Receives one line for the user.
using Report = std::function<void(const std::string&)>;

/// Joins the world, runs `body` and leaves together with all other ranks; returns 0. When `body` or
/// the communication throws, `report` receives one line and the job ends on all ranks with the exit
/// status of the error: 2 for a ConfigError, else 1. However many ranks throw, only one of them
/// reports: the lowest of the ranks that threw first.
int run(const std::function<void(World&)>& body, const Report& report, const Options& options = {});

}  // namespace fourfold::comm::mpi
