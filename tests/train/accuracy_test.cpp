// How well predictions agree with measurements, against values that were computed by hand.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/accuracy.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"

namespace fourfold::test {
namespace {

using train::Accuracy;
using train::accuracy_of;

TEST(Accuracy, ErrorsAreThoseOfTheMeasuredTime) {
  const Accuracy found = accuracy_of({{1.0, 1.0}, {3.0, 2.0}, {3.6, 4.0}});
  EXPECT_NEAR(found.median_error, 0.1, 1e-12);
  EXPECT_NEAR(found.worst_error, 0.5, 1e-12);
  EXPECT_NEAR(accuracy_of({{1.1, 1.0}, {3.0, 2.0}}).median_error, 0.3, 1e-12);
}

TEST(Accuracy, RankCorrelationKnowsOrderAlone) {
  EXPECT_NEAR(accuracy_of({{1, 10}, {2, 200}, {3, 201}}).rank_correlation, 1, 1e-12);
  EXPECT_NEAR(accuracy_of({{3, 10}, {2, 200}, {1, 201}}).rank_correlation, -1, 1e-12);
  // Differences of ranks 1, 1, 0, 0: 1 - 6 * 2 / (4 * 15).
  EXPECT_NEAR(accuracy_of({{1, 2}, {2, 1}, {3, 3}, {4, 4}}).rank_correlation, 0.8, 1e-12);
}

TEST(Accuracy, EqualTimesShareTheirRank) {
  // Ranks 0.5, 0.5, 2 against 0, 1, 2: both sums of products are 1.5, the squares 1.5 and 2.
  EXPECT_NEAR(accuracy_of({{1, 1}, {1, 2}, {3, 3}}).rank_correlation, 1.5 / std::sqrt(3.0), 1e-12);
  EXPECT_EQ(accuracy_of({{1, 1}, {1, 2}}).rank_correlation, 1);
}

TEST(Accuracy, TheChoiceIsThatOfThePrediction) {
  EXPECT_NEAR(accuracy_of({{2, 4}, {1, 5}, {3, 9}}).choice, 1.25, 1e-12);
  EXPECT_EQ(accuracy_of({{1, 4}, {2, 5}}).choice, 1);
}

TEST(Accuracy, RefusesWhatHasNoOrder) {
  EXPECT_THROW(accuracy_of({{1, 1}}), InvariantError);
  EXPECT_THROW(accuracy_of({{1, 1}, {0, 1}}), InvariantError);
}

}  // namespace
}  // namespace fourfold::test
