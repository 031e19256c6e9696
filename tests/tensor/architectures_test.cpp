// Which GPUs code for an architecture runs on.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/architectures.hpp"

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

using tensor::runs_on;

TEST(Architectures, CodeRunsOnLaterOnesOfItsGeneration) {
  EXPECT_TRUE(runs_on("sm_80 sm_90", 8, 0));
  EXPECT_TRUE(runs_on("sm_80 sm_90", 8, 9));
  EXPECT_TRUE(runs_on("sm_80 sm_90", 9, 0));
  EXPECT_FALSE(runs_on("sm_80 sm_90", 7, 5));
  EXPECT_FALSE(runs_on("sm_86", 8, 0));
  EXPECT_FALSE(runs_on("sm_80 sm_90", 10, 0));
  EXPECT_FALSE(runs_on("", 9, 0));
}

TEST(Architectures, DriversCompileForAllLaterOnes) {
  EXPECT_TRUE(runs_on("sm_80 compute_80", 9, 0));
  EXPECT_TRUE(runs_on("sm_80 compute_80", 12, 1));
  EXPECT_TRUE(runs_on("compute_100", 10, 0));
  EXPECT_FALSE(runs_on("compute_90", 8, 9));
}

TEST(Architectures, SomeCodeIsForOneArchitectureOrGeneration) {
  EXPECT_TRUE(runs_on("sm_90a compute_90a", 9, 0));
  EXPECT_FALSE(runs_on("sm_90a compute_90a", 10, 0));
  EXPECT_FALSE(runs_on("sm_100a", 10, 3));
  EXPECT_TRUE(runs_on("sm_100f compute_100f", 10, 3));
  EXPECT_FALSE(runs_on("sm_100f compute_100f", 12, 0));
}

TEST(Architectures, HaveNames) {
  EXPECT_EQ(tensor::name_architectures("sm_80 sm_90"), "sm_80 and sm_90");
  EXPECT_EQ(tensor::name_architectures("sm_80 compute_80 sm_90 compute_90"),
            "sm_80 and sm_90, and newer ones");
  EXPECT_EQ(tensor::name_architectures("sm_90a compute_90a"), "sm_90a");
}

}  // namespace
}  // namespace fourfold::test
