// The main function of tests that run under mpirun: one process a rank, every rank runs every test.
//   --expect-ranks=N   fails unless the world has N ranks (a program started bare is a world of 1)
//   --hang-rank=N      rank N prints its process number and waits for a debugger to set `go`
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <optional>
#include <string_view>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/comm/mpi/mpi.hpp"

#include "tests/support/ranks.hpp"
#include "tests/support/watchdog.hpp"

namespace fourfold::test {

namespace {

comm::World* the_world = nullptr;

int option(int argc, char** argv, std::string_view name, int otherwise) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument.starts_with(name) && argument.substr(name.size(), 1) == "=") {
      return static_cast<int>(parse_int(argument.substr(name.size() + 1)).value());
    }
  }
  return otherwise;
}

void wait_for_debugger(comm::World& world, int hang_rank) {
  if (world.rank() == hang_rank) {
    std::fprintf(stderr, "rank %d is process %d on %s\n", world.rank(), getpid(),
                 world.host(world.rank()).c_str());
    volatile bool go = false;
    while (!go) sleep(1);
  }
  world.communicator(everyone(world)).barrier().wait();
}

int run_tests(comm::World& world, int argc, char** argv) {
  const int expected = option(argc, argv, "--expect-ranks", 0);
  if (world.size() != expected) {
    std::fprintf(stderr, "this test wants %d ranks (--expect-ranks) and has %d\n", expected,
                 world.size());
    return 1;
  }
  if (const int rank = option(argc, argv, "--hang-rank", -1); rank >= 0) {
    wait_for_debugger(world, rank);
  }
  if (world.rank() != 0) {
    // One report is enough: all ranks have the same verdict.
    delete testing::UnitTest::GetInstance()->listeners().Release(
        testing::UnitTest::GetInstance()->listeners().default_result_printer());
  }
  return RUN_ALL_TESTS();
}

}  // namespace

void on_mpi(const Body& body) {
  const HangWatchdog watchdog(Seconds(240));
  const WatchedThread watched;
  try {
    body(*the_world);
    expect_on_all_ranks(*the_world, true, "");
  } catch (const ExpectationFailed& error) {
    FAIL() << describe(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", describe(error).c_str());
    the_world->abort(error.what(), 1);
  }
}

}  // namespace fourfold::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto world = fourfold::comm::mpi::open();
  fourfold::test::the_world = &world;
  const int status = fourfold::test::run_tests(world, argc, argv);
  world.leave();
  return status;
}
