// What is said when an operation on a device does not end. The devices are those of the stand-in.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "fourfold/comm/thread/thread.hpp"

#include "tests/support/ranks.hpp"
#include "tests/support/stand_in_rank.hpp"
#include "tests/support/watchdog.hpp"

namespace fourfold::test {
namespace {

using stand_in::Machine;
using stand_in::Mistake;

/// What `run` throws when `body` fails, as text.
std::string failure_of_worlds(int ranks, const Body& body) {
  const HangWatchdog watchdog(Seconds(60));
  try {
    comm::thread::run(ranks, body, {.deadline = Seconds(2), .answer_time = Seconds(2)});
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

/// The same, where each rank computes in its own thread.
std::string failure_of(int ranks, const Body& body) {
  return failure_of_worlds(ranks, [&](comm::World& world) {
    stand_in::use_device(world);
    body(world);
  });
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(DeviceFailure, ARankThatNeverEntersIsNamed) {
  const Machine machine({});
  const std::string text = failure_of(3, [](comm::World& world) {
    const auto all = world.communicator(everyone(world));
    std::vector<float> data(64, 1.F);
    all.all_reduce(on_device(data)).wait();
    if (world.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(6));
    all.all_reduce(on_device(data)).wait();
  });
  expect_part(text, "all_reduce sum of 64 f32 (number 1 of group x [0 1 2])");
  expect_part(text, "rank 2 on this process is behind, it has issued 1 operations there");
  expect_part(text, "outside of communication");
  EXPECT_TRUE(machine.faults().empty());
}

TEST(DeviceFailure, ARankWithoutTheCommunicatorIsNamed) {
  const Machine machine({});
  const std::string text = failure_of(2, [](comm::World& world) {
    const int lane = world.reserve_lanes(1);
    std::vector<float> data(64, 1.F);
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(6));
    const auto all = world.communicator(everyone(world), lane);
    all.all_reduce(on_device(data)).wait();
  });
  expect_part(text, "rank 1 on this process has no communicator for this group");
}

/// Calls to NCCL that do not come to an end, before there is anything that a stream could tell.
TEST(DeviceFailure, ACallThatNeverHappensIsNamed) {
  for (const Mistake mistake :
       {Mistake::kNeverSettles, Mistake::kCallBlocks, Mistake::kCreateBlocks}) {
    const Machine machine({}, mistake);
    const std::string text = failure_of(2, [](comm::World& world) {
      const auto all = world.communicator(everyone(world));
      std::vector<float> data(64, 1.F);
      all.all_reduce(on_device(data)).wait();
      world.resolve();
    });
    expect_part(text, "all_reduce sum of 64 f32 (number 0 of group x [0 1])");
    EXPECT_TRUE(machine.faults().empty());
  }
}

/// Nobody watches over communicators any more when they are destroyed.
TEST(DeviceFailure, CommunicatorsThatCannotBeDestroyedAreAborted) {
  const HangWatchdog watchdog(Seconds(60));
  const Machine machine({}, Mistake::kNeverFinalized);
  const Seconds before = now();
  on_threads(2, [](comm::World& world) {
    stand_in::use_device(world, {.farewell = Seconds(0.2)});
    std::vector<float> data(64, 1.F);
    world.communicator(everyone(world)).all_reduce(on_device(data)).wait();
    world.resolve();
  });
  EXPECT_GE(now() - before, Seconds(0.2));
  EXPECT_TRUE(machine.faults().empty());
}

TEST(DeviceFailure, AnotherOperationInItsPlaceIsNamed) {
  const Machine machine({});
  const std::string text = failure_of(2, [](comm::World& world) {
    const auto all = world.communicator(everyone(world));
    std::vector<float> data(64, 1.F);
    std::vector<float> wide(128, 1.F);
    if (world.rank() == 0) {
      all.all_reduce(on_device(data)).wait();
    } else {
      all.all_gather(on_device(data), on_device(wide)).wait();
    }
  });
  expect_part(text, "in its place");
  ASSERT_EQ(machine.faults().size(), 2U);
  expect_part(machine.faults()[0], "with other arguments");
}

/// With room for one kernel, ranks that issue two operations in different orders take it from each
/// other.
TEST(DeviceFailure, RanksThatAreAtDifferentOperationsAreNamed) {
  const Machine machine({.resident = 1});
  const std::string text = failure_of(2, [](comm::World& world) {
    const int lanes = world.reserve_lanes(2);
    const comm::Communicator a = world.communicator(everyone(world), lanes, 0);
    const comm::Communicator b = world.communicator(everyone(world), lanes + 1, 1);
    std::vector<float> in_a(10, 1.F);
    std::vector<float> in_b(20, 2.F);
    const bool first = world.rank() == 0;
    comm::Work one = (first ? a : b).all_reduce(on_device(first ? in_a : in_b));
    comm::Work two = (first ? b : a).all_reduce(on_device(first ? in_b : in_a));
    one.wait();
    two.wait();
  });
  const bool by_first = text.find("rank 1 on this process has issued it") != std::string::npos;
  expect_part(text, concat("all_reduce sum of ", by_first ? 10 : 20, " f32 (number 0"));
  expect_part(text,
              concat("has issued it, and it waits for all_reduce sum of ", by_first ? 20 : 10));
}

TEST(DeviceFailure, AReceiveWithoutASendNamesThePeer) {
  const Machine machine({});
  const std::string text = failure_of(3, [](comm::World& world) {
    const auto all = world.communicator(everyone(world));
    std::vector<float> data(64, 1.F);
    if (world.rank() == 0) all.recv(on_device(data), 2).wait();
    if (world.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(6));
  });
  expect_part(text, "recv from 2 of 64 f32");
  expect_part(text, "rank 2 on this process");
}

TEST(DeviceFailure, AnExceptionEndsEveryDevice) {
  const Machine machine({});
  const std::string text = failure_of(3, [](comm::World& world) {
    const auto all = world.communicator(everyone(world));
    std::vector<float> data(64, 1.F);
    all.all_reduce(on_device(data)).wait();
    comm::Work work;
    // Rank 1 leaves, and the memory of all goes while kernels wait for it.
    if (world.rank() != 1) work = all.all_reduce(on_device(data));
    if (world.rank() == 1) throw IoError("the disk is full");
    work.wait();
  });
  expect_part(text, "the disk is full");
  EXPECT_TRUE(machine.faults().empty());
}

// --- the deadline, where the host is ahead of the device

std::function<void()> busy_for(double seconds) {
  return [seconds] { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); };
}

/// The operation waits for compute of its own rank, for longer than the deadline of two seconds.
TEST(DeviceFailure, ComputeMayTakeLongerThanTheDeadline) {
  const Machine machine({});
  const std::string text = failure_of_worlds(2, [](comm::World& world) {
    const Compute compute(world);
    const auto all = world.communicator(everyone(world));
    std::vector<float> data(64, 1.F);
    all.all_reduce(on_device(data)).wait();  // makes the communicator
    world.resolve();
    all.barrier().wait();
    compute.launch("a long step", {}, busy_for(4.5));
    all.all_reduce(on_device(data)).wait();
    all.all_reduce(on_device(data)).wait();
    world.resolve();
    expect_on_all_ranks(world, data[0] == 8, "the sum");
  });
  EXPECT_EQ(text, "none");
  EXPECT_TRUE(machine.faults().empty());
}

/// From the moment at which the device has come to the operation, the deadline counts.
TEST(DeviceFailure, BehindComputeARankThatNeverEntersIsNamed) {
  const Machine machine({});
  const std::string text = failure_of_worlds(2, [](comm::World& world) {
    const Compute compute(world);
    const auto all = world.communicator(everyone(world));
    std::vector<float> data(64, 1.F);
    all.all_reduce(on_device(data)).wait();
    world.resolve();
    compute.launch("a step", {}, busy_for(1));
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(8));
    all.all_reduce(on_device(data)).wait();
    world.resolve();
  });
  expect_part(text, "all_reduce sum of 64 f32 (number 1 of group x [0 1])");
  expect_part(text, "rank 1 on this process is behind, it has issued 1 operations there");
  EXPECT_TRUE(machine.faults().empty());
}

TEST(DeviceFailure, ADeviceThatComputesForTooLongIsNamed) {
  const Machine machine({});
  std::array<std::vector<float>, 2> memory;  // outlives what the devices do
  const std::string text = failure_of_worlds(2, [&](comm::World& world) {
    const Compute compute(world);
    const auto all = world.communicator(everyone(world));
    std::vector<float>& data = memory[static_cast<std::size_t>(world.rank())];
    data.assign(64, 1.F);
    all.all_reduce(on_device(data)).wait();
    world.resolve();
    if (world.rank() == 1) compute.launch("a long step", {}, busy_for(8));
    all.all_reduce(on_device(data)).wait();
    world.resolve();
  });
  expect_part(text,
              "rank 1 on this process has issued it, and its device still computes what comes "
              "before it");
}

}  // namespace
}  // namespace fourfold::test
