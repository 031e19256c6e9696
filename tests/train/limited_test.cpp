// A rank whose tensors need more than device.memory_gib ends the job on all ranks, with one line.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"

#include "tests/support/process.hpp"

namespace fourfold::test {
namespace {

Outcome train_with_limit_on(int rank) {
  return run_program({LIMITED_PROGRAM, "--ranks", "4", concat(rank)});
}

TEST(Limited, ARankThatNeedsMoreEndsTheJobWithOneLine) {
  for (const int rank : {0, 3}) {
    const Outcome outcome = train_with_limit_on(rank);
    ASSERT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
    EXPECT_NE(outcome.err.find(concat("rank ", rank, " needs ")), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(" more for activations and has "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("device.memory_gib allows "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("train.micro_batch"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.status, 2);
    EXPECT_LT(outcome.seconds.value(), 60);
  }
}

TEST(Limited, WithoutALimitItTrains) {
  const Outcome outcome = train_with_limit_on(-1);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.status, 0);
}

}  // namespace
}  // namespace fourfold::test
