// A program for the tests of the launcher and of failures: starts its own ranks with --ranks N, and
// does on them what its arguments say.
//   rank_program [--ranks N] ok | throw R | exit R S | kill R | stop R | bad-input | spin R | print
// R is the rank that misbehaves while all are in a loop of collectives.
// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <vector>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/comm/mpi/mpi.hpp"
#include "fourfold/comm/mpi/run.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/launch/environment.hpp"
#include "fourfold/launch/launcher.hpp"

namespace {

using namespace fourfold;

constexpr int kRounds = 200;

void report(const std::string& line) {
  std::fprintf(stderr, "rank_program: %s\n", line.c_str());
}

void misbehave(const std::vector<std::string>& arguments) {
  const std::string& what = arguments[0];
  if (what == "throw") throw Error("the sky is falling");
  if (what == "exit") _exit(std::stoi(arguments[2]));
  if (what == "kill") raise(SIGKILL);
  if (what == "stop") raise(SIGSTOP);
  if (what == "spin") {
    for (volatile bool forever = true; forever;) {
    }
  }
}

/// Collectives over two kinds of groups, with compute in between.
void work(comm::World& world, const std::vector<std::string>& arguments) {
  const std::string& what = arguments[0];
  if (what == "bad-input") throw ConfigError("key 'x' must be at least 1");
  if (what == "print") {
    const launch::Binding& binding = launch::bind_to_cores();
    if (world.rank() == 0 && !binding.remark.empty()) report(binding.remark);
    std::printf("rank %d of %d on %s, cores %s with %d threads\n", world.rank(), world.size(),
                world.host(world.rank()).c_str(), binding.cores.c_str(), launch::kernel_threads());
    return;
  }
  const grid::Grid grid({.x = 2, .y = world.size() / 2});
  const auto x = world.communicator(grid.group(grid::Axis::kX, world.rank()));
  const auto y = world.communicator(grid.group(grid::Axis::kY, world.rank()));
  std::vector<float> data(100000, 1.F);
  const int bad_rank = arguments.size() > 1 ? std::stoi(arguments[1]) : -1;
  for (int round = 0; round < kRounds; ++round) {
    if (round == kRounds / 2 && world.rank() == bad_rank) misbehave(arguments);
    auto first = x.all_reduce(comm::view(data));
    usleep(500);
    first.wait();
    y.all_reduce(comm::view(data)).wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (!arguments.empty() && arguments[0] == "--ranks") {
      launch::Job job{static_cast<int>(parse_int(arguments.at(1)).value_or(0)),
                      {launch::this_program()},
                      report};
      job.command.insert(job.command.end(), arguments.begin() + 2, arguments.end());
      return launch::run(job);
    }
    launch::ensure_thread_variables(argv);
  } catch (const Error& error) {
    report(error.what());
    return error.exit_status();
  }
  comm::Options options;
  if (const char* deadline = std::getenv("TEST_DEADLINE")) {
    options.deadline = Seconds(parse_number(deadline).value());
    options.answer_time = Seconds(1);
  }
  return comm::mpi::run([&](comm::World& world) { work(world, arguments); }, report, options);
}
