// The learning rates of a run.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/optim/learning_rate.hpp"

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

TEST(LearningRate, StartsLinearlyAndEndsAtTheSmallest) {
  const optim::LearningRate rate{.largest = 1, .smallest = 0.1, .warmup = 4, .steps = 12};
  EXPECT_DOUBLE_EQ(rate.at(1), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(4), 1);
  EXPECT_DOUBLE_EQ(rate.at(8), 0.55);  // half way down
  EXPECT_DOUBLE_EQ(rate.at(12), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(100), 0.1);
  for (std::int64_t step = 5; step <= 12; ++step) {
    EXPECT_LT(rate.at(step), rate.at(step - 1)) << step;
  }
}

TEST(LearningRate, WithoutWarmupAndForOneStep) {
  const optim::LearningRate plain{.largest = 1, .smallest = 0.1, .warmup = 0, .steps = 10};
  EXPECT_LT(plain.at(1), 1);
  EXPECT_GT(plain.at(1), 0.9);
  const optim::LearningRate one{.largest = 1, .smallest = 0.1, .warmup = 10, .steps = 1};
  EXPECT_DOUBLE_EQ(one.at(1), 0.1);
}

}  // namespace
}  // namespace fourfold::test
