// A rank's share of its host, worked out from what its launcher tells: pure functions of the
// environment, so that every launcher can be tested without being installed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fourfold::launch {

using Variables = std::map<std::string, std::string>;

/// This rank's place among those of its host.
struct LocalPlace {
  int rank = 0;
  int size = 1;
};

/// Nothing when the launcher does not tell, or tells what cannot be. Knows Open MPI, MPICH, Intel
/// MPI and srun, in this order: mpirun inside a Slurm job sees the variables of both.
std::optional<LocalPlace> local_place(const Variables& variables);

/// What a rank finds when it starts.
struct Surroundings {
  Variables variables;
  std::vector<int> allowed;   ///< cores that this process may use
  std::vector<int> launcher;  ///< cores that the process that started it may use
  int online = 1;             ///< cores of the host
};

/// What a rank makes of them.
struct Share {
  std::vector<int> cores;      ///< to bind to; the allowed ones when there is nothing to divide
  std::optional<int> threads;  ///< for the numerical libraries; nothing when no limit is known
  std::string remark;          ///< for the user: what could not be done; mostly empty
};

/// Divides the cores that ranks share evenly among them, and leaves the cores that are the rank's
/// own already. Where ranks outnumber the cores that they share, nobody is bound and each has one
/// thread (docs/decisions/018).
Share share_of_host(const Surroundings& surroundings);

}  // namespace fourfold::launch
