// Which operations share links, when their shares change, and how they slow compute down: times
// computed by hand.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/plan/program.hpp"
#include "fourfold/plan/replay.hpp"

#include "tests/plan/steps.hpp"

namespace fourfold::test {
namespace {

using cluster::Cluster;
using grid::Axes;
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

/// A message of a second, to or from the member `peer` of the group.
Collective message(Op op, int peer) {
  return {.op = op, .count = 250'000'000, .root = peer};
}

/// Messages between the places of a pipeline, all at once, each in a lane of its own.
struct Route {
  int from;
  int to;
};
double seconds_of(int places, const std::vector<Route>& routes) {
  std::vector<Schedule> schedules(static_cast<std::size_t>(places));
  std::vector<std::vector<std::int64_t>> issued(schedules.size());
  for (std::size_t lane = 0; lane < routes.size(); ++lane) {
    const auto issue = [&](Op op, int place, int peer) {
      const auto at = static_cast<std::size_t>(place);
      issued[at].push_back(schedules[at].issue(message(op, peer), Axis::kPipe, places, place,
                                               static_cast<int>(lane)));
    };
    issue(Op::kSend, routes[lane].from, routes[lane].to);
    issue(Op::kRecv, routes[lane].to, routes[lane].from);
  }
  for (std::size_t place = 0; place < schedules.size(); ++place) {
    for (const std::int64_t number : issued[place]) schedules[place].wait(number);
  }
  return plan::replay(schedules, Grid({.pipe = places}), plain_cluster()).step.value();
}

TEST(Contention, MessagesShareWhatTheirSenderSendsAndTheirReceiverReceives) {
  EXPECT_NEAR(seconds_of(3, {{0, 1}, {0, 2}}), 2, 1e-9) << "one sender";
  EXPECT_NEAR(seconds_of(3, {{0, 2}, {1, 2}}), 2, 1e-9) << "one receiver";
  EXPECT_NEAR(seconds_of(3, {{0, 1}, {1, 2}}), 1, 1e-9) << "a place that does both";
  EXPECT_NEAR(seconds_of(2, {{1, 0}, {1, 0}}), 2, 1e-9) << "the sender comes last";
}

/// All ranks of a place exchange messages among themselves.
TEST(Contention, MessagesInsideAPlaceShareALinkInEachDirection) {
  const auto seconds = [](const std::vector<Op>& ops) {
    Schedule schedule;
    int lane = 0;
    for (const Op op : ops) schedule.issue(message(op, 1), Axis::kX, 2, 0, ++lane);
    for (std::int64_t i = 0; i < schedule.operations(); ++i) schedule.wait(i);
    return plan::replay({schedule}, kTwo, plain_cluster()).step.value();
  };
  EXPECT_NEAR(seconds({Op::kSend, Op::kRecv}), 1, 1e-9);
  EXPECT_NEAR(seconds({Op::kSend, Op::kSend}), 2, 1e-9);
  EXPECT_NEAR(seconds({Op::kRecv, Op::kRecv}), 2, 1e-9);
}

/// In a group over pipe and another axis both ends of a message may be in one place, and then the
/// other places have no part in it. Both directions of one lane are queues of their own.
TEST(Contention, AGroupOverPipeMayHaveMessagesInsideAPlace) {
  const Grid grid({.x = 2, .pipe = 2});
  for (const Axes& axes : {Axes{Axis::kPipe, Axis::kX}, Axes{Axis::kX, Axis::kPipe}}) {
    const bool pipe_first = axes[0] == Axis::kPipe;
    std::vector<Schedule> schedules(2);
    for (int place = 0; place < 2; ++place) {
      Schedule& schedule = schedules[static_cast<std::size_t>(place)];
      const int own = pipe_first ? 2 * place : place;
      const int other = pipe_first ? own + 1 : own + 2;
      compute(schedule, 1 + place);
      const auto sent = schedule.issue(message(Op::kSend, other), axes, 4, own, 1);
      const auto received = schedule.issue(message(Op::kRecv, other), axes, 4, own, 1);
      schedule.wait(sent);
      schedule.wait(received);
    }
    const Replayed replayed = plan::replay(schedules, grid, plain_cluster());
    EXPECT_NEAR(replayed.places[0].step.value(), 2, 1e-9) << axes;
    EXPECT_NEAR(replayed.places[1].step.value(), 3, 1e-9) << axes;
  }
}

TEST(Contention, OperationsInsideAHostShareItsLinks) {
  Cluster cluster = plain_cluster();
  cluster.gpus_per_host = 4;  // 10 GB/s between them
  Schedule schedule;
  schedule.issue(gather(10 * kSecond), Axis::kX, 2, 0, 1);
  schedule.issue(gather(10 * kSecond), Axis::kY, 2, 0, 2);
  schedule.wait(0);
  schedule.wait(1);
  EXPECT_NEAR(plan::replay({schedule}, kFour, cluster).step.value(), 2, 1e-9);
}

/// Until the wait begins, the urgent operation has eight messages in flight and the other one six:
/// it has done 2/7 after half a second. Then the other one has one message.
TEST(Contention, AWaitChangesTheSharesOfWhatIsUnderWay) {
  Schedule schedule;
  const auto behind = schedule.issue(gather(kSecond, Priority::kBackground), Axis::kX, 2, 0, 1);
  const auto urgent = schedule.issue(gather(kSecond), Axis::kY, 2, 0, 2);
  compute(schedule, 0.5);
  schedule.wait(urgent);
  schedule.wait(behind);
  const Replayed replayed = plan::replay({schedule}, kFour, plain_cluster());
  EXPECT_NEAR(replayed.step.value(), 2, 1e-9);
  EXPECT_NEAR(replayed.places[0].exposed_by_axes.at("y").value(), 5.0 / 7 * 9 / 8, 1e-9);
}

/// For half a second place 0 waits for an empty message, and each of its gathers has one message in
/// flight. Then they have eight and six, and 3/4 of the urgent one take 21/16 of a second.
TEST(Contention, TheEndOfAWaitChangesTheSharesOfWhatIsUnderWay) {
  std::vector<Schedule> schedules(2);
  for (int place = 0; place < 2; ++place) {  // neither is ahead of the other
    Schedule& schedule = schedules[static_cast<std::size_t>(place)];
    schedule.wait(schedule.issue({.op = Op::kBarrier}, Axis::kPipe, 2, place, 4));
  }
  const Collective send{.op = Op::kSend, .root = 0};
  compute(schedules[1], 0.5);
  schedules[1].wait(schedules[1].issue(send, Axis::kPipe, 2, 1, 3));
  compute(schedules[1], 4);  // and begins no other wait meanwhile
  Schedule& schedule = schedules[0];
  const auto behind = schedule.issue(gather(kSecond, Priority::kBackground), Axis::kX, 2, 0, 1);
  const auto urgent = schedule.issue(gather(kSecond), Axis::kY, 2, 0, 2);
  const Collective receive{.op = Op::kRecv, .root = 1};
  schedule.wait(schedule.issue(receive, Axis::kPipe, 2, 0, 3));
  compute(schedule, 21.0 / 16 - 1e-6);
  schedule.wait(urgent);
  compute(schedule, 1);
  schedule.wait(behind);
  const Grid grid({.x = 2, .y = 2, .pipe = 2});
  const plan::PlaceTime time = plan::replay(schedules, grid, plain_cluster()).places[0];
  EXPECT_LT(time.exposed_by_axes.at("y").value(), 2e-6);
  EXPECT_GT(time.exposed_by_axes.at("y").value(), 1e-7);
}

/// The short operation has 30 KiB on their way, a chunk, and the long one has a message of 60 KiB:
/// the short one gets a third of the link, although compute stands still for it.
TEST(Contention, AShortOperationGetsAShareOfItsSize) {
  constexpr std::int64_t kChunk = 30 << 10;
  Schedule schedule;
  const auto behind = schedule.issue(gather(kSecond, Priority::kBackground), Axis::kX, 2, 0, 1);
  const auto urgent = schedule.issue(gather(2 * kChunk), Axis::kY, 2, 0, 2);
  schedule.wait(urgent);
  schedule.wait(behind);
  const Replayed replayed = plan::replay({schedule}, kFour, plain_cluster());
  EXPECT_NEAR(replayed.places[0].exposed_by_axes.at("y").value(), 3 * kChunk / 1e9, 1e-9);
}

/// Hosts of four devices with one NIC, which share it along data or along x.
double gathers_and_computes(const Grid& grid, double compute_seconds) {
  Cluster cluster = plain_cluster();
  cluster.gpus_per_host = 4;
  Schedule schedule;
  schedule.wait(schedule.issue(gather(kSecond / 8), Axis::kY, 2, 0, 1));
  compute(schedule, compute_seconds);
  return plan::replay({schedule}, grid, cluster).step.value();
}

TEST(Contention, ReplicasUseTheNicsOfAHostInTurn) {
  const Grid along_x({.x = 4, .y = 2});  // they wait for each other all the time
  EXPECT_NEAR(gathers_and_computes(along_x, 1), 1.5, 1e-9) << "four gathers at once";
  // A gather alone takes t = 1/8 s. The others use the NIC for 3t of a step of 1 + t: a third.
  const Grid along_data({.y = 2, .data = 4},
                        {Axis::kX, Axis::kData, Axis::kZ, Axis::kY, Axis::kPipe});
  EXPECT_NEAR(gathers_and_computes(along_data, 1), 1 + 0.125 / (1 - 1.0 / 3), 1e-9);
  // Where the NIC has no rest, all of them share it.
  EXPECT_NEAR(gathers_and_computes(along_data, 0.01), 0.51, 1e-9);
}

TEST(Contention, ReplicasOfAPipelineUseTheNicsAlongZAtOnce) {
  // Ranks of a host differ along data. Groups along y do, too, and may use the NIC in turn.
  const grid::Placement order{Axis::kX, Axis::kData, Axis::kY, Axis::kZ, Axis::kPipe};
  const Grid pipeline({.y = 2, .z = 2, .data = 4, .pipe = 2}, order);
  EXPECT_EQ(plan::groups_in_turn(pipeline, Axis::kY, 4), 4);
  EXPECT_EQ(plan::groups_in_turn(pipeline, Axis::kZ, 4), 1);
  EXPECT_EQ(plan::groups_in_turn(pipeline, {Axis::kY, Axis::kZ}, 4), 1);
  const Grid without({.y = 2, .z = 2, .data = 4}, order);
  EXPECT_EQ(plan::groups_in_turn(without, Axis::kZ, 4), 4);
  // Places of a pipeline on one host are never at the same point of a step.
  const Grid places({.z = 2, .data = 2, .pipe = 2},
                    {Axis::kX, Axis::kY, Axis::kData, Axis::kPipe, Axis::kZ});
  EXPECT_EQ(plan::groups_in_turn(places, Axis::kZ, 4), 2);
}

TEST(Contention, ALowerBoundHasTheNicsForItself) {
  Cluster cluster = plain_cluster();
  cluster.gpus_per_host = 4;
  Schedule schedule;
  schedule.wait(schedule.issue(gather(kSecond / 8), Axis::kY, 2, 0, 1));
  compute(schedule, 1);
  const Grid grid({.y = 2, .data = 4}, {Axis::kX, Axis::kData, Axis::kZ, Axis::kY, Axis::kPipe});
  EXPECT_NEAR(plan::replay({schedule}, grid, cluster, {.never_in_the_way = true}).step.value(),
              1.125, 1e-9);
}

/// Compute that ends before the operation is slowed down as well.
TEST(Contention, SlowsAllOfTheComputeThatRunsMeanwhile) {
  Cluster cluster = plain_cluster();
  cluster.device.slowdown = 1.25;
  Schedule schedule;
  const auto number = schedule.issue(gather(2 * kSecond), Axis::kX, 2, 0, 1);
  compute(schedule, 1);
  schedule.wait(number);
  const Replayed replayed = plan::replay({schedule}, kTwo, cluster);
  EXPECT_NEAR(replayed.places[0].compute.value(), 1.25, 1e-9);
  EXPECT_NEAR(replayed.places[0].exposed.value(), 0.75, 1e-9);
}

/// The second operation begins where the first one ends: 1.2 of three seconds are done by then.
TEST(Contention, SlowsComputeThroughSeveralOperations) {
  Cluster cluster = plain_cluster();
  cluster.device.slowdown = 1.25;
  Schedule schedule;
  schedule.issue(gather(kSecond), Axis::kX, 2, 0, 1);
  const auto second = schedule.issue(gather(kSecond / 2), Axis::kX, 2, 0, 1);
  compute(schedule, 3);
  schedule.wait(0);
  schedule.wait(second);
  EXPECT_NEAR(plan::replay({schedule}, kTwo, cluster).step.value(), 1.5 + 1.8, 1e-9);
}

}  // namespace
}  // namespace fourfold::test
