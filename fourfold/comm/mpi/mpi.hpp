// Ranks as MPI processes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/world.hpp"

namespace fourfold::comm::mpi {

/// Whether this process was started by an MPI launcher (mpirun, srun): otherwise `open` would give
/// a world of one.
bool started_by_launcher();

/// Initialises MPI and joins the world. Once a process; collective. MPI is finalised when the World
/// goes.
World open(const Options& options = {});

/// The MPI library's own name and version, in one line.
std::string library_version();

}  // namespace fourfold::comm::mpi
