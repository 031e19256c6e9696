// A grid and a collective. Eight ranks are threads of this process, arranged as 2 x 2 x 2. They sum
// their numbers along one axis. The program needs neither a GPU nor mpirun:
//   ./01_grid_and_collective
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <vector>

#include "fourfold/base/text.hpp"
#include "fourfold/comm/thread/thread.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/schedule/wire.hpp"

using namespace fourfold;

namespace {

constexpr std::int64_t kElements = 1000;

/// What one rank does. Returns its line of the table; throws what the library throws.
std::string sum_along_y(comm::World& world, const grid::Grid& grid) {
  // The ranks that differ from this one in y only. Making a communicator sends nothing, but every
  // rank must make the same ones in the same order.
  const grid::Group group = grid.group(grid::Axis::kY, world.rank());
  const comm::Communicator comm = world.communicator(group);

  std::vector<double> numbers(kElements, world.rank());
  comm::Work work = comm.all_reduce(comm::view(numbers));  // starts; the rank could compute now
  work.wait();                                             // the sum is there

  double expected = 0;
  for (const int member : group.members) expected += member;
  for (const double number : numbers) {
    if (number != expected) throw Error(concat("the sum is ", number, ", not ", expected));
  }

  // What an operation sends is known before it runs, and counted while it does.
  const schedule::Traffic planned = schedule::traffic_of(
      {.op = schedule::Op::kAllReduce, .dtype = schedule::DType::kF64, .count = kElements},
      comm.size(), comm.rank());
  schedule::Traffic counted;
  for (const auto& [key, count] : world.counters()) counted += count.wire;
  if (!(counted == planned)) throw Error("this rank sent something else than the closed form");

  return concat(grid.coord_of(world.rank()), "   group ", group, "   sum ", numbers[0], "   sent ",
                counted.bytes);
}

}  // namespace

int main() {
  const grid::Grid grid({.x = 2, .y = 2, .z = 2});
  std::vector<std::string> lines(static_cast<std::size_t>(grid.ranks()));
  try {
    // On a cluster the same body runs under comm::mpi::run, one process a rank.
    comm::thread::run(grid.ranks(), [&](comm::World& world) {
      lines[static_cast<std::size_t>(world.rank())] = sum_along_y(world, grid);
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", describe(error).c_str());
    return 1;
  }
  std::printf("The grid %s\n", to_string(grid).c_str());
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
  return 0;
}
