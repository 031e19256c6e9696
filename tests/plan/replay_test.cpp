// Replayed schedules against times computed by hand.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/replay.hpp"

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/plan/operation_time.hpp"

#include "tests/plan/steps.hpp"

namespace fourfold::test {
namespace {

using cluster::Cluster;
using grid::Axis;
using grid::Grid;
using plan::Replayed;
using schedule::Collective;
using schedule::Op;
using schedule::Priority;
using schedule::Schedule;

const Grid kTwo({.x = 2});
const Grid kFour({.x = 2, .y = 2});
constexpr std::int64_t kSecond = 2'000'000'000;  // bytes of a gather that takes a second

Replayed replay_one(const Schedule& schedule, const Cluster& cluster = plain_cluster(),
                    const Grid& grid = kTwo) {
  return plan::replay({schedule}, grid, cluster);
}

TEST(Replay, NothingTakesNoTime) {
  const Replayed replayed = replay_one({});
  EXPECT_EQ(replayed.step, Seconds(0));
  EXPECT_TRUE(replayed.periodic);
}

TEST(Replay, ComputeAlone) {
  Schedule schedule;
  compute(schedule, 2);
  compute(schedule, 3);
  const Replayed replayed = replay_one(schedule);
  EXPECT_NEAR(replayed.step.value(), 5, 1e-9);
  EXPECT_NEAR(replayed.places[0].compute.value(), 5, 1e-9);
  EXPECT_EQ(replayed.places[0].exposed, Seconds(0));
  EXPECT_EQ(replayed.steps, 2);
}

/// An operation that begins with the step and is waited for behind `hiding` seconds of compute.
Schedule overlapped(double hiding) {
  Schedule schedule;
  const auto number = schedule.issue(gather(kSecond), Axis::kX, 2, 0, 1);
  compute(schedule, hiding);
  schedule.wait(number);
  compute(schedule, 0.5);
  return schedule;
}

TEST(Replay, ComputeHidesAnOperation) {
  Replayed replayed = replay_one(overlapped(3));
  EXPECT_NEAR(replayed.step.value(), 3.5, 1e-9);
  EXPECT_EQ(replayed.places[0].exposed, Seconds(0));
  replayed = replay_one(overlapped(0.25));
  EXPECT_NEAR(replayed.step.value(), 1.5, 1e-9);
  EXPECT_NEAR(replayed.places[0].exposed.value(), 0.75, 1e-9);
  EXPECT_NEAR(replayed.places[0].exposed_by_axes.at("x").value(), 0.75, 1e-9);
  EXPECT_NEAR(replayed.places[0].compute.value(), 0.75, 1e-9);
}

/// Members go on to the next broadcast of a queue as soon as their own part of one is done.
TEST(Replay, BroadcastsInARowFillTheirWayOnce) {
  const Grid grid({.x = 4});
  const Collective broadcast{.op = Op::kBroadcast, .count = 1000};  // a tree of two rounds
  const double hop = 4000 / 1e9;
  const auto in_a_row = [&](int count) {
    Schedule schedule;
    std::vector<std::int64_t> numbers;
    for (int i = 0; i < count; ++i) numbers.push_back(schedule.issue(broadcast, Axis::kX, 4, 0, 1));
    for (const std::int64_t number : numbers) schedule.wait(number);
    return replay_one(schedule, plain_cluster(), grid).step.value();
  };
  EXPECT_NEAR(in_a_row(1), 2 * hop, 1e-12);
  EXPECT_NEAR(in_a_row(5), 2 * hop + 4 * 0.75 * hop, 1e-12);
  Schedule apart;  // each one is waited for before the next
  for (int i = 0; i < 5; ++i) apart.wait(apart.issue(broadcast, Axis::kX, 4, 0, 1));
  EXPECT_NEAR(replay_one(apart, plain_cluster(), grid).step.value(), 5 * 2 * hop, 1e-12);
}

TEST(Replay, APartOfAGroupIsAGroupOfItsOwn) {
  Schedule schedule;
  schedule.wait(schedule.issue(gather(kSecond), Axis::kX, 2, 0, 1));
  EXPECT_NEAR(replay_one(schedule, plain_cluster(), Grid({.x = 4})).step.value(), 1, 1e-9);
}

TEST(Replay, LatencyComesBeforeTheTransfer) {
  Cluster cluster = plain_cluster();
  cluster.network.nic_latency = Seconds(0.125);
  // One step of a ring of two, in one message at a time: latency and bytes.
  Schedule schedule;
  const Collective little{.op = Op::kAllGather, .count = 1000};
  schedule.wait(schedule.issue(little, Axis::kX, 2, 0, 1));
  EXPECT_NEAR(replay_one(schedule, cluster).step.value(), 0.125 + 2e-6, 1e-12);
}

TEST(Replay, CommunicationSlowsComputeDown) {
  Cluster cluster = plain_cluster();
  cluster.device.slowdown = 1.25;
  // For one second compute runs at 1/1.25 of its speed, so 0.8 of three seconds are done then.
  const Replayed replayed = replay_one(overlapped(3), cluster);
  EXPECT_NEAR(replayed.step.value(), 1 + 2.2 + 0.5, 1e-9);
  EXPECT_NEAR(replayed.places[0].compute.value(), 3.7, 1e-9);
}

TEST(Replay, OperationsOfOneQueueRunInOrder) {
  Schedule schedule;
  const auto first = schedule.issue(gather(kSecond), Axis::kX, 2, 0, 1);
  const auto second = schedule.issue(gather(kSecond / 2), Axis::kX, 2, 0, 1);
  schedule.wait(second);
  compute(schedule, 1);
  schedule.wait(first);
  const Replayed replayed = replay_one(schedule);
  EXPECT_NEAR(replayed.step.value(), 2.5, 1e-9);
  EXPECT_NEAR(replayed.places[0].exposed.value(), 1.5, 1e-9);
}

TEST(Replay, TwoOperationsShareALink) {
  // Both are under way at once and get half of the link: the shorter one ends after 1 s, and the
  // longer one, half done, after another half second.
  Schedule schedule;
  const auto longer = schedule.issue(gather(kSecond), Axis::kX, 2, 0, 1);
  const auto shorter = schedule.issue(gather(kSecond / 2), Axis::kY, 2, 0, 2);
  compute(schedule, 2);
  schedule.wait(shorter);
  schedule.wait(longer);
  const plan::ReplayOptions options{.traces = true};
  const Replayed replayed = plan::replay({schedule}, kFour, plain_cluster(), options);
  EXPECT_NEAR(replayed.step.value(), 2, 1e-9);
  std::map<int, double> ends;
  for (const comm::Span& span : replayed.traces[0].spans) {
    if (span.kind == comm::Span::Kind::kOperation) {
      ends[span.lane] = (span.end - replayed.traces[0].steps[0].begin).value();
    }
  }
  EXPECT_NEAR(ends.at(1), 1.5, 1e-9);
  EXPECT_NEAR(ends.at(2), 1.0, 1e-9);
}

TEST(Replay, OperationsOnDifferentLinksDoNot) {
  // x inside the hosts at 10 GB/s, y between them.
  Cluster cluster = plain_cluster();
  cluster.gpus_per_host = 2;
  cluster.network.nic_bandwidth = BytesPerSecond(2e9);  // two siblings share it
  Schedule schedule;
  const auto inside = schedule.issue(gather(10 * kSecond), Axis::kX, 2, 0, 1);
  const auto between = schedule.issue(gather(kSecond), Axis::kY, 2, 0, 2);
  schedule.wait(inside);
  schedule.wait(between);
  EXPECT_NEAR(replay_one(schedule, cluster, kFour).step.value(), 1, 1e-9);
}

TEST(Replay, TheLinkBelongsToWhatComputeStandsStillFor) {
  // Compute waits for the urgent operation, so it has eight messages in flight and the other one:
  // it takes 9/8 of a second. The background operation has then done an eighth of its second.
  Schedule schedule;
  const auto behind = schedule.issue(gather(kSecond, Priority::kBackground), Axis::kX, 2, 0, 1);
  const auto urgent = schedule.issue(gather(kSecond), Axis::kY, 2, 0, 2);
  schedule.wait(urgent);
  schedule.wait(behind);
  Replayed replayed = replay_one(schedule, plain_cluster(), kFour);
  EXPECT_NEAR(replayed.step.value(), 2, 1e-9);
  EXPECT_NEAR(replayed.places[0].exposed_by_axes.at("y").value(), 9.0 / 8, 1e-9);
  EXPECT_NEAR(replayed.places[0].exposed_by_axes.at("x").value(), 7.0 / 8, 1e-9);
  // NCCL knows no such preference.
  Cluster nccl = plain_cluster();
  nccl.network.library = cluster::Library::kNccl;
  replayed = replay_one(schedule, nccl, kFour);
  EXPECT_NEAR(replayed.places[0].exposed_by_axes.at("y").value(), 2, 1e-9);
}

TEST(Replay, WithoutAWaitUrgentOperationsHaveMoreMessagesInFlight) {
  Schedule schedule;
  const auto behind = schedule.issue(gather(kSecond, Priority::kBackground), Axis::kX, 2, 0, 1);
  const auto urgent = schedule.issue(gather(kSecond), Axis::kY, 2, 0, 2);
  compute(schedule, 7.0 / 4 - 1e-6);  // eight to six: the urgent one takes 14/8 of a second
  schedule.wait(urgent);
  compute(schedule, 1);
  schedule.wait(behind);
  const Replayed replayed = replay_one(schedule, plain_cluster(), kFour);
  EXPECT_LT(replayed.places[0].exposed.value(), 2e-6);
  EXPECT_GT(replayed.places[0].exposed.value(), 1e-7);
}

TEST(Replay, AWaitForTheStepBefore) {
  // The operation is issued at the end of a step, and the next one waits for it after a second.
  Schedule schedule;
  compute(schedule, 1);
  schedule.wait(-1);
  compute(schedule, 2);
  schedule.issue(gather(2 * kSecond), Axis::kX, 2, 0, 1);
  const Replayed replayed = replay_one(schedule);
  EXPECT_NEAR(replayed.step.value(), 4, 1e-9);
  EXPECT_NEAR(replayed.places[0].exposed.value(), 1, 1e-9);
  EXPECT_EQ(replayed.steps, 3) << "the first step waits for nothing";
}

/// Numbers below zero count from the end: -1 is the last operation of the step before.
TEST(Replay, AWaitForOneOfSeveralOfTheStepBefore) {
  Schedule schedule;
  schedule.wait(-1);
  schedule.wait(schedule.issue(gather(kSecond / 1000), Axis::kX, 2, 0, 1));
  compute(schedule, 2);
  schedule.issue(gather(kSecond), Axis::kY, 2, 0, 2);
  const Replayed replayed = replay_one(schedule, plain_cluster(), kFour);
  EXPECT_NEAR(replayed.step.value(), 3.001, 1e-9);
  EXPECT_NEAR(replayed.places[0].exposed_by_axes.at("y").value(), 1, 1e-9);
}

/// Operations of one lane that differ in one thing only take different times.
TEST(Replay, EveryOperationTakesItsOwnTime) {
  Cluster cluster = plain_cluster();
  cluster.network.nic_latency = Seconds(1e-3);
  const Collective first = gather(1 << 20);
  std::vector<Collective> all(5, first);
  all[1].priority = Priority::kBackground;
  all[2].dtype = schedule::DType::kBF16;
  all[3].count *= 3;
  all[4].op = Op::kAllReduce;
  const auto alone = [&](const Collective& one) {
    return plan::time_of(one, {.members = 2}, cluster).total().value();
  };
  Schedule schedule;
  double expected = 0;
  for (const Collective& one : all) {
    schedule.wait(schedule.issue(one, Axis::kX, 2, 0, 1));
    expected += alone(one);
    EXPECT_EQ(alone(one) == alone(first), one == first) << one;
  }
  EXPECT_NEAR(replay_one(schedule, cluster).step.value(), expected, 1e-9);
}

TEST(Replay, GroupsOfOneCostNothing) {
  Schedule schedule;
  const auto alone = schedule.issue(gather(kSecond), Axis::kZ, 1, 0, 3);
  schedule.wait(alone);
  schedule.wait(-1);
  compute(schedule, 1);
  EXPECT_NEAR(replay_one(schedule).step.value(), 1, 1e-9);
  // NCCL is not called for them either.
  Cluster nccl = plain_cluster();
  nccl.network.library = cluster::Library::kNccl;
  nccl.device.kernel_start = Seconds(0.25);  // of the compute
  EXPECT_NEAR(replay_one(schedule, nccl).step.value(), 1.25, 1e-9);
}

TEST(Replay, TracesCoverTheStep) {
  const plan::ReplayOptions options{.traces = true};
  const Replayed replayed = plan::replay({overlapped(0.25)}, kTwo, plain_cluster(), options);
  ASSERT_EQ(replayed.traces.size(), 1U);
  const report::RankTrace& trace = replayed.traces[0];
  EXPECT_EQ(trace.steps[0].begin, Seconds(0));
  EXPECT_NEAR(trace.steps[0].end.value(), 1.5, 1e-9);
  EXPECT_EQ(trace.lanes, (std::map<int, std::string>{{1, "x"}}));
  const std::vector<report::Row> rows = report::rows_of(trace);
  ASSERT_EQ(rows.size(), 2U);
  ASSERT_EQ(rows[0].spans.size(), 3U);
  EXPECT_EQ(report::label_of(rows[0].spans[0]), "layer work");
  EXPECT_EQ(rows[0].spans[1].kind, comm::Span::Kind::kWait);
  EXPECT_EQ(rows[0].spans[1].axes, "x");
  Seconds reached;
  for (const comm::Span& span : rows[0].spans) {
    EXPECT_NEAR(span.begin.value(), reached.value(), 1e-9);
    reached = span.end;
  }
  EXPECT_NEAR(reached.value(), 1.5, 1e-9);
  ASSERT_EQ(rows[1].spans.size(), 1U);
  EXPECT_EQ(rows[1].name, "x");
  EXPECT_EQ(rows[1].spans[0].name, "all_gather");
  EXPECT_EQ(rows[1].spans[0].bytes, Bytes(kSecond));
}

TEST(Replay, RefusesSchedulesOfAnotherGrid) {
  EXPECT_THROW(plan::replay({Schedule(), Schedule()}, kTwo, plain_cluster()), InvariantError);
}

}  // namespace
}  // namespace fourfold::test
