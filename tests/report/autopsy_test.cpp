// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/autopsy.hpp"

#include <gtest/gtest.h>

namespace fourfold::report {
namespace {

using comm::FlightLog;
using comm::FlightOperation;
using schedule::Op;

/// A rank of four that has done some all_reduces of a group.
FlightLog log_of(int rank, std::int64_t done, std::vector<int> members = {0, 1, 2, 3}) {
  FlightLog log{.rank = rank, .ranks = 4, .host = "n1", .step = 9, .seen = 100};
  log.lanes = {{5, "y", std::move(members), 4}};
  for (std::int64_t i = 0; i < done; ++i) {
    log.operations.push_back({.number = i,
                              .in_lane = i,
                              .lane = 5,
                              .op = Op::kAllReduce,
                              .count = 64,
                              .layer = "h.1.mlp",
                              .issued = 50,
                              .ended = 51});
  }
  return log;
}

/// The rank waits for its last operation.
FlightLog waiting(FlightLog log, double since) {
  log.operations.back().ended = 0;
  log.operations.back().waited = since;
  log.waiting_for = log.operations.back().number;
  return log;
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(Autopsy, NamesTheRankThatDidNotCome) {
  FlightLog late = log_of(2, 3);
  late.seen = 88;
  const Autopsy found = autopsy(
      {waiting(log_of(0, 4), 90), waiting(log_of(1, 4), 89), late, waiting(log_of(3, 4), 91)});
  ASSERT_EQ(found.culprits.size(), 1U);
  EXPECT_EQ(found.culprits[0].rank, 2);
  EXPECT_TRUE(has(found.summary,
                  "rank 2 on n1 held the job up: it computed after all_reduce of 64 f32 (number 2 "
                  "of group y [0 1 2 3]) for h.1.mlp, last seen 12.0 s before the end; ranks 0,1,3 "
                  "waited for it"))
      << found.summary;
  ASSERT_EQ(found.ranks.size(), 4U);
  EXPECT_TRUE(has(found.ranks[0],
                  "rank 0 on n1, step 9: waited 10.0 s for all_reduce of 64 f32 "
                  "(number 3 of group y [0 1 2 3])"))
      << found.ranks[0];
}

TEST(Autopsy, FollowsWaitsToTheirCause) {
  // Rank 0 waits for rank 1, which waits for a message of rank 3, which saves.
  FlightLog second = log_of(1, 3);
  second.lanes.push_back({6, "pipe", {1, 3}, 2});
  second.operations.push_back(
      {.number = 3, .in_lane = 0, .lane = 6, .op = Op::kRecv, .count = 8, .root = 1, .issued = 80});
  second = waiting(second, 80);
  FlightLog third = log_of(3, 3);
  third.doing = "writing a checkpoint";
  const Autopsy found = autopsy({waiting(log_of(0, 4, {0, 1}), 85), second, log_of(2, 3), third});
  ASSERT_EQ(found.culprits.size(), 1U) << found.summary;
  EXPECT_EQ(found.culprits[0].rank, 3);
  EXPECT_TRUE(has(found.summary, "it was writing a checkpoint")) << found.summary;
  EXPECT_TRUE(has(found.summary, "rank 1 waited for it")) << found.summary;
}

TEST(Autopsy, NamesTheRankThatDidNotEndByItself) {
  // All wait for the same operation, which all have issued: only one of them is gone.
  std::vector<FlightLog> logs;
  for (int rank = 0; rank < 4; ++rank) {
    logs.push_back(waiting(log_of(rank, 4), 90));
    logs.back().left = rank != 1;
  }
  const Autopsy found = autopsy(logs);
  ASSERT_EQ(found.culprits.size(), 1U);
  EXPECT_EQ(found.culprits[0].rank, 1);
  EXPECT_TRUE(has(found.summary,
                  "rank 1 on n1 held the job up: it was killed or stopped when it "
                  "waited 10.0 s for all_reduce"))
      << found.summary;
}

/// The rank that noticed first is not the one that was stopped in the same operation.
TEST(Autopsy, DoesNotNameTheRankThatNoticed) {
  std::vector<FlightLog> logs;
  for (const int rank : {0, 2}) {
    FlightLog log = log_of(rank, 3);
    log.lanes.push_back({7, "data", {0, 2}, 2});
    log.operations.push_back({.number = 3,
                              .in_lane = 66,
                              .lane = 7,
                              .op = Op::kReduceScatter,
                              .count = 8,
                              .issued = 80});
    logs.push_back(waiting(log, 80));
  }
  logs[0].left = true;
  for (const int rank : {1, 3}) logs.push_back(waiting(log_of(rank, 4), 90));
  const Autopsy found = autopsy(logs);
  ASSERT_EQ(found.culprits.size(), 1U) << found.summary;
  EXPECT_EQ(found.culprits[0].rank, 2);
}

/// mpirun has killed the others before they could end by themselves.
TEST(Autopsy, NamesTheRankThatDidNotAnswer) {
  std::vector<FlightLog> logs;
  for (int rank = 0; rank < 4; ++rank) logs.push_back(waiting(log_of(rank, 4), 90));
  logs[0].left = true;
  EXPECT_EQ(autopsy(logs).culprits.size(), 3U);
  logs[0].silent = {2};
  const Autopsy found = autopsy(logs);
  ASSERT_EQ(found.culprits.size(), 1U) << found.summary;
  EXPECT_EQ(found.culprits[0].rank, 2);
  EXPECT_TRUE(has(found.summary, "rank 2 on n1 held the job up: it waited 10.0 s for all_reduce"))
      << found.summary;
  EXPECT_TRUE(has(found.summary, "it did not answer rank 0")) << found.summary;
}

TEST(Autopsy, NamesRanksWithoutALog) {
  const Autopsy found =
      autopsy({waiting(log_of(0, 4), 90), waiting(log_of(1, 4), 90), waiting(log_of(3, 4), 90)});
  ASSERT_EQ(found.culprits.size(), 1U);
  EXPECT_EQ(found.culprits[0].rank, 2);
  EXPECT_TRUE(has(found.summary, "rank 2 has left no log")) << found.summary;
  EXPECT_TRUE(has(found.summary, "no log of rank 2")) << found.summary;
}

TEST(Autopsy, KnowsCirclesAndQuietEnds) {
  const Autopsy quiet = autopsy({log_of(0, 4), log_of(1, 4), log_of(2, 4), log_of(3, 4)});
  EXPECT_TRUE(quiet.culprits.empty());
  EXPECT_EQ(quiet.summary, "no rank waited for another when the job ended");
  const auto pair = [](int rank, int peer) {
    FlightLog log{.rank = rank, .ranks = 2, .host = "n1", .step = 1, .seen = 100};
    log.lanes = {{6, "pipe", {0, 1}, 2}};
    log.operations = {
        {.number = 0, .lane = 6, .op = Op::kRecv, .count = 8, .root = peer, .issued = 80}};
    return waiting(log, 80);
  };
  const Autopsy circle = autopsy({pair(0, 1), pair(1, 0)});
  EXPECT_EQ(circle.culprits.size(), 2U);
  EXPECT_EQ(circle.summary, "ranks 0,1 held the job up");
}

}  // namespace
}  // namespace fourfold::report
