// Ranks as processes, with the library fourfold::comm_mpi. Under mpirun or srun each process is one
// rank, and together they compute an integral. With --ranks N the program starts its own processes:
//   mpirun -np 2 ./07_ranks_of_mpi         or         ./07_ranks_of_mpi --ranks 2
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/comm/mpi/run.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/launch/environment.hpp"
#include "fourfold/launch/launcher.hpp"

using namespace fourfold;

namespace {

constexpr std::int64_t kSlices = 1'000'000;

/// What one rank does. An exception ends the job on all ranks, with one line and a status.
void integrate(comm::World& world) {
  // All ranks along one axis. Every rank makes the same communicators in the same order.
  const grid::Grid grid({.data = world.size()});
  const auto everyone = world.communicator(grid.group(grid::Axis::kData, world.rank()));

  // The integral of 4 / (1 + x²) from 0 to 1, of which this rank has every size-th slice.
  std::vector<double> sum(1);
  for (std::int64_t i = world.rank(); i < kSlices; i += world.size()) {
    const double x = (static_cast<double>(i) + 0.5) / kSlices;
    sum[0] += 4 / (1 + x * x) / kSlices;
  }
  comm::Work work = everyone.all_reduce(comm::view(sum));  // runs on while this thread computes
  work.wait();
  if (std::abs(sum[0] - M_PI) > 1e-9) throw Error(concat("the integral is ", sum[0]));

  if (world.rank() == 0) std::printf("%.9f on %d ranks\n", sum[0], world.size());
}

void report(const std::string& line) {
  std::fprintf(stderr, "07_ranks_of_mpi: %s\n", line.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::string(argv[1]) == "--ranks") {
      const int ranks = static_cast<int>(parse_int(argv[2]).value_or(0));
      return launch::run({ranks, {launch::this_program()}, report});
    }
    // A rank takes its share of its host's cores, as its number of threads and to run on.
    launch::ensure_library_variables(argv);
    launch::bind_to_cores();
  } catch (const Error& error) {
    report(error.what());
    return error.exit_status();
  }
  return comm::mpi::run(integrate, report);
}
