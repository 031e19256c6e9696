// A dry run records what a real run does.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/recording/recording.hpp"

#include <mutex>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "fourfold/comm/layer_scope.hpp"
#include "fourfold/comm/phase_scope.hpp"
#include "fourfold/comm/recorder.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;

const grid::Grid kGrid({.x = 2, .y = 3, .data = 2});

/// One program for both: some operations over several groups, waited for out of order.
schedule::Schedule program(comm::World& world, bool real) {
  schedule::Schedule schedule;
  const auto x = world.communicator(kGrid.group(Axis::kX, world.rank()));
  const auto yx = world.communicator(kGrid.group({Axis::kY, Axis::kX}, world.rank()));
  const auto z = world.communicator(kGrid.group(Axis::kZ, world.rank()));
  const auto data = world.communicator(kGrid.group(Axis::kData, world.rank()));
  std::vector<float> memory(real ? 60000 : 0, 1.F);
  const auto piece = [&](std::int64_t begin, std::int64_t count) {
    return comm::View{real ? memory.data() + begin : nullptr, count, comm::DType::kF32};
  };
  world.reset_counters();
  const comm::Recording recorded(world, schedule);
  auto gather = x.all_gather(piece(0, 500), piece(1000, 1000));
  world.computed("product", schedule::product_of({10, 20, 30}, comm::DType::kF32, Bytes(4000)));
  auto reduce = yx.reduce_scatter(piece(6000, 6000), piece(15000, 1000), comm::ReduceOp::kSum,
                                  comm::Priority::kBackground);
  z.all_reduce(piece(20000, 100)).wait();
  reduce.wait();
  data.all_reduce({piece(30000, 10), piece(40000, 20000)}).wait();
  gather.wait();
  data.broadcast(piece(0, 50000), 1).wait();
  return schedule;
}

/// A real run on hosts with so many ranks each, 0 for one host, against a dry one.
void compare_with_a_real_run(int ranks_per_host) {
  std::mutex mutex;
  const auto compare = [&](comm::World& world) {
    const schedule::Schedule real = program(world, true);
    const auto real_counts = world.counters();
    auto dry_world = comm::recording::open(world.rank(), world.size(), ranks_per_host);
    const schedule::Schedule dry = program(dry_world, false);
    const auto dry_counts = dry_world.counters();
    const std::lock_guard lock(mutex);
    EXPECT_EQ(real, dry) << "real:\n" << real << "dry:\n" << dry;
    EXPECT_EQ(dry.operations(), 5);
    EXPECT_EQ(dry.steps().size(), 11U);
    ASSERT_EQ(real_counts.size(), dry_counts.size());
    schedule::Traffic sum;
    for (const auto& [key, count] : real_counts) {
      ASSERT_TRUE(dry_counts.contains(key));
      EXPECT_EQ(count.calls, dry_counts.at(key).calls);
      EXPECT_EQ(count.payload, dry_counts.at(key).payload);
      EXPECT_EQ(count.wire, dry_counts.at(key).wire);
      sum += count.wire;
    }
    EXPECT_EQ(dry.traffic(), sum);
    for (int rank = 0; ranks_per_host > 0 && rank < world.size(); ++rank) {
      EXPECT_EQ(dry_world.host(rank), world.host(rank));
    }
  };
  on_threads(kGrid.ranks(), compare, {.threads_per_host = ranks_per_host});
}

TEST(Recording, EqualsARealRunOnEveryRank) {
  compare_with_a_real_run(0);
}

TEST(Recording, EqualsARealRunOnSeveralHosts) {
  for (const int ranks_per_host : {1, 2, 5, 6}) compare_with_a_real_run(ranks_per_host);
}

TEST(Recording, KnowsWhichGroupsSpanHosts) {
  const grid::Grid grid({.x = 4, .data = 2});
  const auto messages = [&](Axis axis, int ranks_per_host) {
    auto world = comm::recording::open(5, grid.ranks(), ranks_per_host);
    const auto comm = world.communicator(grid.group(axis, world.rank()));
    comm.broadcast({nullptr, 600 << 10, comm::DType::kF32}, comm.rank()).wait();
    return world.counters().begin()->second.wire.messages;
  };
  EXPECT_EQ(messages(Axis::kX, 0), 1);
  EXPECT_EQ(messages(Axis::kX, 4), 1);  // ranks 4 to 7 are a host
  EXPECT_EQ(messages(Axis::kX, 2), 40);
  EXPECT_EQ(messages(Axis::kData, 8), 1);
  EXPECT_EQ(messages(Axis::kData, 4), 40);
}

TEST(Recording, NumbersOperationsFromBeforeBackwards) {
  auto world = comm::recording::open(0, 2);
  const auto comm = world.communicator(everyone(world));
  schedule::Schedule first, second;
  std::optional<comm::Recording> recorded;
  recorded.emplace(world, first);
  auto work = comm.barrier();
  { const auto dropped = comm.barrier(); }
  recorded.emplace(world, second);
  comm.barrier().wait();
  work.wait();  // its operation is the second last from before
  recorded.reset();
  EXPECT_EQ(first.steps().size(), 3U);  // a dropped handle waits, too
  ASSERT_EQ(second.steps().size(), 3U);
  EXPECT_EQ(std::get<schedule::Wait>(second.steps()[1]), schedule::Wait{0});
  EXPECT_EQ(std::get<schedule::Wait>(second.steps()[2]), schedule::Wait{-2});
}

/// Scopes end where they began, and each thread has its own.
TEST(Recording, KnowsThePhaseAndTheLayerOfCompute) {
  using schedule::Phase;
  auto world = comm::recording::open(0, 1);
  schedule::Schedule schedule;
  const comm::Recording recorded(world, schedule);
  world.computed("first", {});
  {
    const comm::LayerScope layer("h.1");
    const comm::PhaseScope backward(Phase::kBackward);
    {
      const comm::PhaseScope again(Phase::kRecompute);
      world.computed("inner", {});
      std::thread([&] { world.computed("elsewhere", {}); }).join();
    }
    world.computed("outer", {});
  }
  world.computed("last", {});
  const std::vector<schedule::Step> expected = {
      schedule::Compute{"first", {}, Phase::kForward, ""},
      schedule::Compute{"inner", {}, Phase::kRecompute, "h.1"},
      schedule::Compute{"elsewhere", {}, Phase::kForward, ""},
      schedule::Compute{"outer", {}, Phase::kBackward, "h.1"},
      schedule::Compute{"last", {}, Phase::kForward, ""}};
  EXPECT_EQ(schedule.steps(), expected) << schedule;
}

TEST(Recording, AnyRankOfALargeGrid) {
  const grid::Grid grid({.x = 8, .y = 16, .z = 8, .data = 16});
  auto world = comm::recording::open(12345, grid.ranks());
  const auto comm = world.communicator(grid.group({Axis::kY, Axis::kX}, world.rank()));
  EXPECT_EQ(comm.size(), 128);
  const std::int64_t count = std::int64_t{1} << 40;
  comm.all_reduce({nullptr, count, comm::DType::kBF16}).wait();
  EXPECT_EQ(world.counters().begin()->second.wire.bytes, Bytes(2 * 127 * (count / 128) * 2));
}

}  // namespace
}  // namespace fourfold::test
