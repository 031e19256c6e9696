// A program for the tests of the launcher and of failures: starts its own ranks with --ranks N, and
// does on them what its arguments say.
//   rank_program [--ranks N] ok | throw R | exit R S | kill R | stop R | bad-input | spin R | print
//                            | work R S | stop-at-work R | kill-at-work R | loop FILE
//                            | absent R | late R S
//                            | all-throw | all-stack | all-memory | all-later R
// R is the rank that misbehaves while all are in a loop of collectives. It works at something that
// it has announced, for S seconds or, stopped or killed in the middle of it, for ever. In the loop
// FILE is made once all ranks run. An absent rank never joins, a late one after S seconds. The last
// ones make every rank throw, or every rank but R, which does so a second later.
// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <stdexcept>
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

void misbehave(comm::World& world, const std::vector<std::string>& arguments) {
  const std::string& what = arguments[0];
  if (what == "work" || what.ends_with("-at-work")) {
    const comm::LongWork long_work = world.long_work("working");
    if (what == "work") sleep(static_cast<unsigned>(std::stoi(arguments[2])));
    if (what == "stop-at-work") raise(SIGSTOP);
    if (what == "kill-at-work") raise(SIGKILL);
  }
  if (what == "throw") throw Error("the sky is falling");
  if (what == "exit") _exit(std::stoi(arguments[2]));
  if (what == "kill") raise(SIGKILL);
  if (what == "stop") raise(SIGSTOP);
  if (what == "spin") {
    for (volatile bool forever = true; forever;) {
    }
  }
}

/// In the middle of an operation, as errors mostly come.
void throw_on_all(comm::World& world, const comm::Communicator& comm, std::vector<float>& data,
                  const std::vector<std::string>& arguments) {
  const std::string& what = arguments[0];
  const auto under_way = comm.all_reduce(comm::view(data));
  if (what == "all-throw") throw Error("the loss is not finite");
  if (what == "all-stack") {
    throw std::runtime_error(
        "sizes do not match\nException raised from somewhere (most recent call first):\nframe #0: "
        "first\nframe #1: second\n");
  }
  if (what == "all-memory") static_cast<void>(::operator new (std::size_t{1} << 60));
  if (what == "all-later") {
    if (world.rank() == std::stoi(arguments[1])) sleep(1);
    throw Error("the loss is not finite");
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
  const bool loop = what == "loop";
  const int bad_rank = arguments.size() > 1 && !loop ? std::atoi(arguments[1].c_str()) : -1;
  for (int round = 0; loop || round < kRounds; ++round) {
    if (round == kRounds / 2) {
      if (loop && world.rank() == 0) std::ofstream(arguments[1]) << "all ranks run\n";
      if (what.starts_with("all-")) throw_on_all(world, x, data, arguments);
      if (world.rank() == bad_rank) misbehave(world, arguments);
    }
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
    launch::ensure_library_variables(argv);
  } catch (const Error& error) {
    report(error.what());
    return error.exit_status();
  }
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank != nullptr && arguments.size() > 1 && arguments[1] == rank) {
    if (arguments[0] == "absent") sleep(1000);
    if (arguments[0] == "late") sleep(static_cast<unsigned>(std::stoi(arguments.at(2))));
  }
  comm::Options options;
  options.verbose = std::getenv("TEST_VERBOSE") != nullptr;
  if (const char* time = std::getenv("TEST_START_TIME")) {
    options.start_time = Seconds(parse_number(time).value());
  }
  if (const char* deadline = std::getenv("TEST_DEADLINE")) {
    options.deadline = Seconds(parse_number(deadline).value());
    options.answer_time = Seconds(1);
  }
  return comm::mpi::run([&](comm::World& world) { work(world, arguments); }, report, options);
}
