// The line that says who holds an operation up, on situations made by hand.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/position.hpp"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

using comm::FixedText;
using comm::Place;
using comm::Position;
using comm::Stuck;
using schedule::Collective;
using schedule::Op;

constexpr const char* kGroup = "x [0 1 2]";
constexpr const char* kOther = "y [1 5]";
constexpr const char* kSlow = "the network stands still or is too slow";
const Collective kReduce{.op = Op::kAllReduce, .count = 1024};
const Collective kGather{.op = Op::kAllGather, .count = 64};

/// Rank 0 waits for operation 7 of the group of ranks 0, 1 and 2 in a world of 8.
class Explain : public testing::Test {
 protected:
  Explain() {
    stuck_ = {.rank = 0,
              .group = kGroup,
              .members = {0, 1, 2},
              .host_of = [](int rank) { return "node" + std::to_string(rank / 4); },
              .place = {7, kReduce},
              .awaited = 2,
              .waited = Seconds(30),
              .deadline = Seconds(25)};
    for (int rank = 0; rank < 8; ++rank) {
      answers_.emplace_back(Position());
      answer(rank).rank = rank;
    }
    for (int rank : {0, 1, 2}) waits_here(rank, (rank + 2) % 3);
  }

  Position& answer(int rank) { return answers_[static_cast<std::size_t>(rank)].value(); }
  void silence(int rank) { answers_[static_cast<std::size_t>(rank)].reset(); }

  /// The rank has issued the operation and waits in it for another.
  void waits_here(int rank, int awaited) {
    answer(rank).issued = 8;
    answer(rank).current = {7, kReduce};
    waits_in(rank, kGroup, {7, kReduce}, awaited);
  }

  /// The rank has issued only `issued` operations of the group, and does not wait.
  void falls_behind(int rank, std::int64_t issued) {
    answer(rank) = Position();
    answer(rank).rank = rank;
    answer(rank).issued = issued;
  }

  void waits_in(int rank, const char* group, const Place& place, int awaited) {
    answer(rank).waiting = true;
    answer(rank).waiting_group = FixedText(group);
    answer(rank).waiting_for = place;
    answer(rank).awaited = awaited;
  }

  /// The rank has announced long work.
  void works_at(int rank, const char* what) {
    answer(rank).long_work = FixedText(what);
    answer(rank).long_work_over = Seconds(0);
  }

  std::string line() const { return comm::explain(stuck_, answers_).line; }
  bool patient() const { return comm::explain(stuck_, answers_).patient; }

  /// The line begins with what is stuck, and says all of `pieces` and none of `others`.
  void expect_says(const std::vector<std::string>& pieces,
                   const std::vector<std::string>& others = {}) const {
    const std::string text = line();
    EXPECT_FALSE(patient()) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    for (const char* piece :
         {"all_reduce sum of 1024 f32", "number 7", "group x [0 1 2]", "30.0 s"})
      EXPECT_NE(text.find(piece), std::string::npos) << "no '" << piece << "' in: " << text;
    for (const auto& piece : pieces)
      EXPECT_NE(text.find(piece), std::string::npos) << "no '" << piece << "' in: " << text;
    for (const auto& other : others)
      EXPECT_EQ(text.find(other), std::string::npos) << "'" << other << "' in: " << text;
  }

  Stuck stuck_;
  std::vector<std::optional<Position>> answers_;
};

TEST_F(Explain, SilentMember) {
  silence(1);
  expect_says({"rank 1 on node0 does not answer"}, {"behind", "circle", kSlow, "rank 2"});
}

TEST_F(Explain, SeveralSilentMembersAreAllNamed) {
  stuck_.members = {0, 1, 5};
  silence(1);
  silence(5);
  expect_says({"rank 1 on node0 does not answer", "rank 5 on node1 does not answer"});
}

TEST_F(Explain, SilentRanksOutsideOfTheGroupDoNotMatter) {
  silence(6);
  expect_says({kSlow}, {"rank 6", "does not answer"});
}

TEST_F(Explain, MemberBehindOutsideOfCommunication) {
  falls_behind(2, 5);
  expect_says({"rank 2 on node0 is behind, it has issued 5 operations there",
               "it is outside of communication"},
              {"circle", kSlow, "rank 1 on"});
}

TEST_F(Explain, MemberBehindByOneOperation) {
  falls_behind(2, 7);  // numbers 0 to 6: not number 7
  expect_says({"rank 2 on node0 is behind, it has issued 7 operations"});
  falls_behind(2, 8);
  expect_says({}, {"is behind"});
}

TEST_F(Explain, MemberBehindWaitsInAnotherGroupForASilentRank) {
  falls_behind(1, 7);
  waits_in(1, kOther, {3, kGather}, 5);
  silence(5);
  expect_says({"rank 1 on node0 is behind", "it waits for all_gather of 64 f32",
               "number 3 of group y [1 5]", "for rank 5", "rank 5 on node1 does not answer"},
              {"circle", kSlow});
}

TEST_F(Explain, MemberBehindWaitsForARankOutsideOfCommunication) {
  falls_behind(1, 7);
  waits_in(1, kOther, {3, kGather}, 5);
  expect_says({"rank 1 on node0 is behind",
               "rank 5 on node1 is waited for: it is outside of communication"},
              {"circle", "does not answer"});
}

TEST_F(Explain, WaitsAreFollowedOverSeveralRanks) {
  falls_behind(1, 7);
  waits_in(1, kOther, {3, kGather}, 5);
  waits_in(5, "z [5 6]", {9, kReduce}, 6);
  silence(6);
  expect_says({"rank 1 on node0 is behind", "rank 5 on node1: it waits for all_reduce",
               "number 9 of group z [5 6]", "rank 6 on node1 does not answer"});
}

TEST_F(Explain, CircleThroughTheStuckRank) {
  falls_behind(1, 7);
  waits_in(1, "y [0 1]", {3, kGather}, 0);
  expect_says({"rank 1 on node0 is behind", "number 3 of group y [0 1]", "circle through rank 0",
               "different orders"},
              {"does not answer", kSlow});
}

TEST_F(Explain, CircleAmongOthers) {
  falls_behind(1, 7);
  waits_in(1, kOther, {3, kGather}, 5);
  waits_in(5, "z [5 6]", {9, kReduce}, 6);
  waits_in(6, "z [5 6]", {8, kGather}, 5);
  expect_says({"rank 1 on node0 is behind", "rank 6 on node1: it waits", "circle through rank 5"});
}

TEST_F(Explain, CircleOfMembersThatHaveAllIssuedIt) {
  // Rank 2 handed the operation over, but its compute waits in another lane for rank 0.
  waits_in(2, "y [0 2]", {3, kGather}, 0);
  expect_says({"circle through rank 0", "different orders"}, {"is behind", kSlow});
}

TEST_F(Explain, AnotherOperationInItsPlace) {
  answer(1).current = {7, kGather};
  expect_says({"rank 1 on node0 calls all_gather of 64 f32 in its place"}, {"behind", kSlow});
}

TEST_F(Explain, AnotherCountInItsPlace) {
  answer(2).current.collective.count = 1000;
  expect_says({"rank 2 on node0 calls all_reduce sum of 1000 f32 in its place"}, {"rank 1 on"});
}

TEST_F(Explain, AnEarlierOperationIsNotInItsPlace) {
  answer(1).current = {6, kGather};
  expect_says({}, {"in its place"});
}

TEST_F(Explain, NobodyBehind) {
  stuck_.awaited = -1;
  expect_says({"every member has issued it", kSlow}, {"circle", "behind", "does not answer"});
}

TEST_F(Explain, NobodyBehindInARingIsNotACircle) {
  // Each waits in the operation itself for the one before it: 0 for 2, 2 for 1, 1 for 0.
  expect_says({"every member has issued it", kSlow}, {"circle", "behind"});
}

TEST_F(Explain, MemberThatHasIssuedItAndComputes) {
  answer(2).waiting = false;
  expect_says({"rank 2 on node0 is waited for: it is outside of communication"}, {"behind"});
}

TEST_F(Explain, LongGroupsAreComparedAsTheyTravel) {
  stuck_.group = "x [0 1 2]" + std::string(100, ' ');
  for (int rank : {0, 1, 2}) answer(rank).waiting_group = FixedText(stuck_.group);
  expect_says({kSlow}, {"circle"});
}

TEST_F(Explain, LinesAreBounded) {
  for (int rank = 8; rank < 500; ++rank) {
    stuck_.members.push_back(rank);
    answers_.emplace_back();
  }
  expect_says({"rank 8 on node2 does not answer", "and 484 more"}, {"rank 100 on"});
  EXPECT_LT(line().size(), 1000U);
}

TEST_F(Explain, AnnouncedWorkIsWaitedFor) {
  falls_behind(2, 5);
  EXPECT_FALSE(patient());
  works_at(2, "writing the model");
  EXPECT_TRUE(patient());
}

TEST_F(Explain, WorkThatEndedAMomentAgoIsWaitedForUntilTheDeadline) {
  falls_behind(2, 5);
  answer(2).long_work_over = Seconds(24);
  EXPECT_TRUE(patient());
  answer(2).long_work_over = Seconds(26);
  expect_says({"rank 2 on node0 is behind", "outside of communication"});
}

TEST_F(Explain, AnnouncedWorkAtTheEndOfAChain) {
  falls_behind(1, 7);
  waits_in(1, kOther, {3, kGather}, 5);
  waits_in(5, "z [5 6]", {9, kReduce}, 6);
  works_at(6, "writing the model");
  EXPECT_TRUE(patient());
  silence(6);
  expect_says({"rank 6 on node1 does not answer"});
}

TEST_F(Explain, SilenceCountsMoreThanAnnouncedWork) {
  falls_behind(2, 5);
  works_at(2, "writing the model");
  silence(1);
  expect_says({"rank 1 on node0 does not answer"}, {"rank 2 on"});
}

TEST_F(Explain, RankThatAnnouncedNothingIsBlamedBesideOneThatDid) {
  falls_behind(1, 5);
  falls_behind(2, 5);
  works_at(2, "writing the model");
  expect_says({"rank 1 on node0 is behind"}, {"rank 2 on"});
}

TEST_F(Explain, AnotherOperationInItsPlaceIsNoWork) {
  answer(1).current = {7, kGather};
  works_at(1, "writing the model");
  expect_says({"rank 1 on node0 calls all_gather"});
}

TEST_F(Explain, WaitsDuringLongWorkHaveTheDeadlineToo) {
  falls_behind(1, 7);
  waits_in(1, "y [0 1]", {3, kGather}, 0);
  works_at(1, "validating");
  answer(1).waited = Seconds(24);
  EXPECT_TRUE(patient());
  answer(1).waited = Seconds(26);
  expect_says({"rank 1 on node0 is behind", "it is validating and waits for all_gather",
               "circle through rank 0"});
}

/// Rank 0 receives from rank 1 in the group of both.
class ExplainPair : public Explain {
 protected:
  ExplainPair() {
    stuck_.group = "x [0 1]";
    stuck_.members = {0, 1};
    stuck_.place = {2, receive_from(1)};
    stuck_.awaited = 1;
    falls_behind(1, 0);
    falls_behind(2, 0);
    waits_in(0, "x [0 1]", stuck_.place, 1);
  }
  static Collective receive_from(int peer) { return {.op = Op::kRecv, .count = 9, .root = peer}; }
  static Collective send_to(int peer) { return {.op = Op::kSend, .count = 9, .root = peer}; }

  void expect_line(const std::string& piece) const {
    EXPECT_NE(line().find(piece), std::string::npos) << line();
    EXPECT_EQ(line().find("recv from 1 of 9 f32 (number 2 of group x [0 1])"), 0U) << line();
    EXPECT_EQ(line().find("behind"), std::string::npos) << line();
  }
};

TEST_F(ExplainPair, PeerDoesNotWait) {
  expect_line("rank 1 on node0 is waited for: it is outside of communication");
}

TEST_F(ExplainPair, PeerIsSilent) {
  silence(1);
  expect_line("rank 1 on node0 does not answer");
}

TEST_F(ExplainPair, BothReceive) {
  waits_in(1, "x [0 1]", {2, receive_from(0)}, 0);
  expect_line("circle through rank 0");
}

TEST_F(ExplainPair, PeerThatAnnouncedWorkIsWaitedFor) {
  works_at(1, "writing the model");
  EXPECT_TRUE(patient());
  waits_in(1, "x [0 1]", {9, receive_from(0)}, 0);
  EXPECT_TRUE(patient()) << "it is busy with others";
}

TEST_F(ExplainPair, PeerSends) {
  waits_in(1, "x [0 1]", {5, send_to(0)}, 0);
  expect_line(kSlow);
}

TEST(FixedText, CutsAtItsSize) {
  EXPECT_EQ(FixedText().str(), "");
  EXPECT_EQ(FixedText("short").str(), "short");
  const std::string full(63, 'a');
  EXPECT_EQ(FixedText(full).str(), full);
  EXPECT_EQ(FixedText(full + "b").str(), full);
  EXPECT_EQ(FixedText(std::string(1000, 'a')).str(), full);
}

}  // namespace
}  // namespace fourfold::test
