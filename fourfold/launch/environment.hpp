// What a rank is told by whoever started it: its place on the host, cores and threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fourfold::launch {

/// The file of the running program.
std::string this_program();

/// Whether mpirun, srun or another launcher started this process as one rank of several.
bool is_rank();

/// This rank's place among those of its host, if the launcher tells.
struct LocalPlace {
  int rank = 0;
  int size = 1;
};
std::optional<LocalPlace> local_place();

/// Variables that must be set before the numerical libraries load: each rank's share of the cores
/// as its number of threads. What the user has set stays.
std::vector<std::pair<std::string, std::string>> thread_variables(int ranks_on_host);

/// The threads that the numerical libraries of this process use.
int kernel_threads();

/// For a rank that was started without these variables (by a bare mpirun or srun): sets them and
/// starts the program again in place. Returns when there is nothing to do. Call first in main.
void ensure_thread_variables(char** argv);

/// Binds the process to its own share of the cores, unless somebody bound it already or there are
/// more ranks than cores. Returns the cores that it is bound to, as in "0-1", or "any".
std::string bind_to_cores();

}  // namespace fourfold::launch
