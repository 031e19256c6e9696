// How fast collectives are against the best that the MPI library offers for the same result, in one
// run: mpirun -np 2 --bind-to core build/release/bench/comm_speed
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <mpi.h>

#include "fourfold/comm/mpi/mpi.hpp"
#include "fourfold/grid/grid.hpp"

namespace {

using fourfold::comm::view;

struct Candidate {
  std::string name;
  std::function<void()> run;
  double best = 1e9;
};

void wait(MPI_Request request) {
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/// All candidates take turns, so that a slow moment of the machine hits all of them. Each runs
/// twice and the second time counts, so that all find their own data in the caches; it is that of
/// the slowest rank.
void measure(std::vector<Candidate>& candidates, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (Candidate& candidate : candidates) {
      candidate.run();
      MPI_Barrier(MPI_COMM_WORLD);
      double time = MPI_Wtime();
      candidate.run();
      time = MPI_Wtime() - time;
      MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      candidate.best = std::min(candidate.best, time);
    }
  }
}

void report(const char* op, std::size_t bytes, const std::vector<Candidate>& candidates,
            bool print) {
  double library = 1e9;
  std::string which;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    if (candidates[i].best < library) {
      library = candidates[i].best;
      which = candidates[i].name;
    }
  }
  const double ours = candidates[0].best;
  if (print) {
    std::printf("%-15s %6zu KiB  ours %9.1f us  best of MPI %9.1f us (%s)  ratio %.2f\n", op,
                bytes >> 10, ours * 1e6, library * 1e6, which.c_str(), ours / library);
  }
}

void run_size(const fourfold::comm::Communicator& comm, std::size_t bytes) {
  const int p = comm.size();
  const auto n = static_cast<int>(bytes / sizeof(float));
  const int piece = n / p;
  std::vector<float> all(static_cast<std::size_t>(n), 1.F);
  std::vector<float> full(static_cast<std::size_t>(n));
  std::vector<float> part(static_cast<std::size_t>(piece), 1.F);
  const std::vector<int> counts(static_cast<std::size_t>(p), piece);
  const int rounds = bytes < (2U << 20) ? 2000 : 100;
  const bool print = comm.rank() == 0;
  MPI_Comm world = MPI_COMM_WORLD;
  MPI_Request r = MPI_REQUEST_NULL;

  std::vector<Candidate> reduce = {
      {"ours", [&] { comm.all_reduce(view(all)).wait(); }},
      {"Allreduce in place",
       [&] { MPI_Allreduce(MPI_IN_PLACE, all.data(), n, MPI_FLOAT, MPI_SUM, world); }},
      {"Allreduce", [&] { MPI_Allreduce(full.data(), all.data(), n, MPI_FLOAT, MPI_SUM, world); }},
      {"Iallreduce", [&] {
         MPI_Iallreduce(MPI_IN_PLACE, all.data(), n, MPI_FLOAT, MPI_SUM, world, &r);
         wait(r);
       }}};
  measure(reduce, rounds);
  report("all_reduce", bytes, reduce, print);

  std::vector<Candidate> gather = {
      {"ours", [&] { comm.all_gather(view(part), view(full)).wait(); }},
      {"Allgather",
       [&] { MPI_Allgather(part.data(), piece, MPI_FLOAT, full.data(), piece, MPI_FLOAT, world); }},
      {"Iallgather", [&] {
         MPI_Iallgather(part.data(), piece, MPI_FLOAT, full.data(), piece, MPI_FLOAT, world, &r);
         wait(r);
       }}};
  measure(gather, rounds);
  report("all_gather", bytes, gather, print);

  std::vector<Candidate> scatter = {
      {"ours", [&] { comm.reduce_scatter(view(full), view(part)).wait(); }},
      {"Reduce_scatter",
       [&] {
         MPI_Reduce_scatter(full.data(), part.data(), counts.data(), MPI_FLOAT, MPI_SUM, world);
       }},
      {"Reduce_scatter_block",
       [&] {
         MPI_Reduce_scatter_block(full.data(), part.data(), piece, MPI_FLOAT, MPI_SUM, world);
       }},
      {"Ireduce_scatter",
       [&] {
         MPI_Ireduce_scatter(full.data(), part.data(), counts.data(), MPI_FLOAT, MPI_SUM, world,
                             &r);
         wait(r);
       }},
      {"Ireduce_scatter_block", [&] {
         MPI_Ireduce_scatter_block(full.data(), part.data(), piece, MPI_FLOAT, MPI_SUM, world, &r);
         wait(r);
       }}};
  measure(scatter, rounds);
  report("reduce_scatter", bytes, scatter, print);
}

}  // namespace

int main() {
  auto world = fourfold::comm::mpi::open();
  const fourfold::grid::Grid grid({.x = world.size()});
  const auto comm = world.communicator(grid.group(fourfold::grid::Axis::kX, world.rank()));
  for (const std::size_t bytes : {64U << 10, 1U << 20, 16U << 20}) run_size(comm, bytes);
  world.leave();
}
