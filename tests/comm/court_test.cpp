// Who of many ranks gets a right, when, and for how long.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/court.hpp"

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

using comm::Court;
using List = std::vector<int>;

TEST(Court, FirstInOrderOfThoseWhoClaimAtOnceWins) {
  Court court;
  EXPECT_FALSE(court.rule(Seconds(1)));
  court.hear(5, 5, Seconds(1));
  court.hear(2, 2, Seconds(1.1));
  court.hear(7, 7, Seconds(1.2));
  EXPECT_FALSE(court.rule(Seconds(1.2))) << "the hearing is open";
  const auto ruling = court.rule(Seconds(1.3));
  ASSERT_TRUE(ruling);
  EXPECT_EQ(ruling->holder, 2);
  EXPECT_EQ(ruling->claimants, (List{5, 2, 7}));
  EXPECT_FALSE(court.rule(Seconds(1.3))) << "everybody has been told";
}

TEST(Court, OrderMayPutAHigherRankFirst) {
  Court court;
  court.hear(0, 8, Seconds(1));
  court.hear(3, 3, Seconds(1));
  EXPECT_EQ(court.rule(Seconds(2))->holder, 3);
}

TEST(Court, LateClaimsAreToldAtOnce) {
  Court court;
  court.hear(5, 5, Seconds(1));
  ASSERT_TRUE(court.rule(Seconds(1.3)));
  court.hear(0, 0, Seconds(1.4));
  const auto ruling = court.rule(Seconds(1.4));
  ASSERT_TRUE(ruling);
  EXPECT_EQ(ruling->holder, 5);
  EXPECT_EQ(ruling->claimants, (List{0}));
}

TEST(Court, RightLapsesUnlessItIsClaimedAgain) {
  Court court;
  court.hear(5, 5, Seconds(0));
  ASSERT_TRUE(court.rule(Seconds(1)));
  court.hear(5, 5, Seconds(15));
  ASSERT_TRUE(court.rule(Seconds(15)));
  court.hear(3, 3, Seconds(30));
  EXPECT_EQ(court.rule(Seconds(30))->holder, 5);
  court.hear(3, 3, Seconds(36));
  EXPECT_FALSE(court.rule(Seconds(36))) << "a new hearing";
  EXPECT_EQ(court.rule(Seconds(37))->holder, 3);
}

TEST(Court, RightThatIsGivenBackGoesToTheNextRankAtOnce) {
  Court court;
  court.hear(1, 1, Seconds(0));
  ASSERT_EQ(court.rule(Seconds(1))->holder, 1);
  court.release(3);  // which does not have it
  court.hear(2, 2, Seconds(2));
  ASSERT_EQ(court.rule(Seconds(2))->holder, 1);
  court.release(1);
  court.hear(2, 2, Seconds(3));
  EXPECT_FALSE(court.rule(Seconds(3))) << "a new hearing";
  const auto ruling = court.rule(Seconds(3.3));
  ASSERT_TRUE(ruling);
  EXPECT_EQ(ruling->holder, 2);
  EXPECT_EQ(ruling->claimants, (List{2}));
}

TEST(Court, ClaimThatIsTakenBackDoesNotCount) {
  Court court;
  court.hear(1, 1, Seconds(0));
  court.hear(2, 2, Seconds(0.1));
  court.release(1);
  const auto ruling = court.rule(Seconds(0.3));
  ASSERT_TRUE(ruling);
  EXPECT_EQ(ruling->holder, 2);
  EXPECT_EQ(ruling->claimants, (List{2}));
}

TEST(Court, ArbitersAreDistinctRanksOfTheWorld) {
  EXPECT_EQ(comm::arbiters(1), (List{0}));
  EXPECT_EQ(comm::arbiters(2), (List{0, 1}));
  EXPECT_EQ(comm::arbiters(3), (List{0, 1, 2}));
  EXPECT_EQ(comm::arbiters(1024), (List{0, 512, 1023}));
}

}  // namespace
}  // namespace fourfold::test
