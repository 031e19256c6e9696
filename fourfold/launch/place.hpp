// A rank's share of its host, computed from what its launcher says. These are pure functions of the
// environment, so that every launcher can be tested without being installed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fourfold::launch {

using Variables = std::map<std::string, std::string>;

/// This rank's place among the ranks of its host.
struct LocalPlace {
  int rank = 0;
  int size = 1;
};

/// Returns nothing when the launcher does not say, or says something impossible. Supports Open MPI,
/// MPICH, Intel MPI and srun, in this order: mpirun inside a Slurm job sees the variables of both.
std::optional<LocalPlace> local_place(const Variables& variables);

/// The environment that a rank finds when it starts.
struct Surroundings {
  Variables variables;
  std::vector<int> allowed;   ///< cores that this process may use
  std::vector<int> launcher;  ///< cores that the parent process may use
  int online = 1;             ///< cores of the host
};

/// The share that a rank derives from its surroundings.
struct Share {
  std::vector<int> cores;  ///< cores to bind to; the allowed ones when there is nothing to divide
  std::optional<int> threads;  ///< for the numerical libraries; nothing when no limit is known
  std::string remark;          ///< for the user: what could not be done; mostly empty
};

/// Divides cores that ranks share evenly among them. Cores that belong to one rank already stay
/// with it. Where there are more ranks than shared cores, no rank is bound and each has one thread
/// (docs/decisions/018).
Share share_of_host(const Surroundings& surroundings);

}  // namespace fourfold::launch
