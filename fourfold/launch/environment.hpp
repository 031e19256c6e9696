// What a rank knows from its launcher: its place on the host, its cores and its threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fourfold/launch/place.hpp"

namespace fourfold::launch {

/// The path of the running program.
std::string this_program();

/// Whether mpirun, srun or another launcher started this process as one rank of several.
bool is_rank();

/// This rank's place among the ranks of its host, if its launcher says.
std::optional<LocalPlace> local_place();

/// Variables that must be set before the numerical libraries load: the number of threads is each
/// rank's share of the cores. Variables that the user has set are kept.
std::vector<std::pair<std::string, std::string>> thread_variables(int ranks_on_host);

/// The number of threads that the numerical libraries of this process use.
int kernel_threads();

/// Sets variables that the numerical libraries read when they load, and starts the program again in
/// place: the thread variables of a rank that a bare mpirun or srun started without them, by its
/// share of the host (place.hpp), and OPENBLAS_CORETYPE where OpenBLAS does not know the processor
/// (blas_core.hpp). Returns when there is nothing to set. Call it first in main.
void ensure_library_variables(char** argv);

struct Binding {
  std::string cores;   ///< the cores that the process is bound to, as in "0-3", or "any"
  std::string remark;  ///< one line for the user when ranks could not get cores of their own
};

/// Binds the process to its share of the host (place.hpp). The first call binds, and later calls
/// only return the result.
const Binding& bind_to_cores();

}  // namespace fourfold::launch
