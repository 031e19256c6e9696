// Ranks as MPI processes: the library fourfold::comm_mpi. Most programs need only run.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/world.hpp"

namespace fourfold::comm::mpi {

/// Initialises MPI and joins the world. Collective; call it once in a process. MPI is finalised
/// when the World is destroyed.
World open(const Options& options = {});

/// The MPI library's own name and version, in one line.
std::string library_version();

}  // namespace fourfold::comm::mpi
