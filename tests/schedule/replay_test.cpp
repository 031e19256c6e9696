// Which operations wait for each other: the queues of a lane.
// SPDX-License-Identifier: Apache-2.0
#include "tests/schedule/replay.hpp"

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

using grid::Axis;
using schedule::Collective;
using schedule::Issue;
using schedule::Op;
using schedule::Queue;
using schedule::Schedule;

const grid::Grid kPair({.x = 2});

schedule::Queue one_queue_a_lane(const Issue& issue) {
  return {issue.lane};
}

std::int64_t add(Schedule& schedule, Op op, int index, int peer = 0, int lane = 0) {
  return schedule.issue({.op = op, .count = 4, .root = peer}, Axis::kX, 2, index, lane);
}

TEST(Queues, OfALane) {
  const auto of = [](Op op, int root, int lane) {
    return schedule::queue_of({{.op = op, .root = root}, Axis::kX, 8, 0, lane});
  };
  for (const Op op : {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter, Op::kBroadcast,
                      Op::kReduce, Op::kBarrier}) {
    EXPECT_EQ(of(op, 1, 5), (Queue{5})) << "roots share a queue";
  }
  EXPECT_EQ(of(Op::kSend, 1, 5), (Queue{5, 1, true}));
  EXPECT_EQ(of(Op::kRecv, 1, 5), (Queue{5, 1, false}));
  EXPECT_NE(of(Op::kSend, 1, 5), of(Op::kSend, 2, 5));
  EXPECT_NE(of(Op::kSend, 1, 5), of(Op::kRecv, 1, 5));
  EXPECT_NE(of(Op::kSend, 1, 5), of(Op::kSend, 1, 6));
}

TEST(Queues, ASendDoesNotWaitForAReceiveBeforeIt) {
  std::vector<Schedule> ranks(2);
  for (int r = 0; r < 2; ++r) {
    Schedule& schedule = ranks[static_cast<std::size_t>(r)];
    const auto receive = add(schedule, Op::kRecv, r, 1 - r);
    const auto send = add(schedule, Op::kSend, r, 1 - r);
    schedule.wait(send);
    schedule.wait(receive);
  }
  EXPECT_EQ(replay(kPair, ranks), "");
  EXPECT_NE(replay(kPair, ranks, one_queue_a_lane), "");
}

TEST(Queues, ASendDoesNotWaitForACollectiveBeforeIt) {
  std::vector<Schedule> ranks(2);
  ranks[0].wait((add(ranks[0], Op::kBarrier, 0), add(ranks[0], Op::kSend, 0, 1)));
  ranks[1].wait(add(ranks[1], Op::kRecv, 1, 0));
  add(ranks[1], Op::kBarrier, 1);
  EXPECT_EQ(replay(kPair, ranks), "");
  EXPECT_NE(replay(kPair, ranks, one_queue_a_lane), "");
}

TEST(Queues, CollectivesOfALaneKeepTheirOrder) {
  std::vector<Schedule> ranks(2);
  ranks[0].wait((add(ranks[0], Op::kAllReduce, 0), add(ranks[0], Op::kBarrier, 0)));
  ranks[1].wait((add(ranks[1], Op::kBarrier, 1), add(ranks[1], Op::kAllReduce, 1)));
  EXPECT_EQ(replay(kPair, ranks),
            "rank 0 stands at step 2: wait for #1\n"
            "rank 1 stands at step 2: wait for #1\n");
  std::vector<Schedule> lanes(2);  // on two lanes they run side by side
  lanes[0].wait((add(lanes[0], Op::kAllReduce, 0), add(lanes[0], Op::kBarrier, 0, 0, 1)));
  lanes[1].wait((add(lanes[1], Op::kBarrier, 1, 0, 1), add(lanes[1], Op::kAllReduce, 1)));
  EXPECT_EQ(replay(kPair, lanes), "");
}

TEST(Queues, MessagesBetweenTwoRanksKeepTheirOrder) {
  std::vector<Schedule> ranks(2);
  for (const std::int64_t count : {1, 2}) {
    ranks[0].wait(ranks[0].issue({.op = Op::kSend, .count = count, .root = 1}, Axis::kX, 2, 0, 0));
  }
  for (const std::int64_t count : {2, 1}) {
    ranks[1].wait(ranks[1].issue({.op = Op::kRecv, .count = count, .root = 0}, Axis::kX, 2, 1, 0));
  }
  EXPECT_NE(replay(kPair, ranks), "");
}

}  // namespace
}  // namespace fourfold::test
