// The learning rates of a run.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/optim/schedule.hpp"

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

TEST(RateSchedule, StartsLinearlyAndEndsAtTheSmallest) {
  const optim::RateSchedule schedule{.largest = 1, .smallest = 0.1, .warmup = 4, .steps = 12};
  EXPECT_DOUBLE_EQ(schedule.rate(1), 0.25);
  EXPECT_DOUBLE_EQ(schedule.rate(4), 1);
  EXPECT_DOUBLE_EQ(schedule.rate(8), 0.55);  // half way down
  EXPECT_DOUBLE_EQ(schedule.rate(12), 0.1);
  EXPECT_DOUBLE_EQ(schedule.rate(100), 0.1);
  for (std::int64_t step = 5; step <= 12; ++step) {
    EXPECT_LT(schedule.rate(step), schedule.rate(step - 1)) << step;
  }
}

TEST(RateSchedule, WithoutWarmupAndForOneStep) {
  const optim::RateSchedule plain{.largest = 1, .smallest = 0.1, .warmup = 0, .steps = 10};
  EXPECT_LT(plain.rate(1), 1);
  EXPECT_GT(plain.rate(1), 0.9);
  const optim::RateSchedule one{.largest = 1, .smallest = 0.1, .warmup = 10, .steps = 1};
  EXPECT_DOUBLE_EQ(one.rate(1), 0.1);
}

}  // namespace
}  // namespace fourfold::test
