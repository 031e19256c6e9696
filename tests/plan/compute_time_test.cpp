// Times of compute against formulas.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/compute_time.hpp"

#include <gtest/gtest.h>

#include "tests/cluster/small_cluster.hpp"

namespace fourfold::test {
namespace {

TEST(ComputeTime, IsLimitedByArithmeticOrMemory) {
  const cluster::Cluster cluster = small_cluster();
  const auto seconds = [&](double flops, std::int64_t bytes) {
    return plan::seconds_of({"work", Flops(flops), Bytes(bytes)}, cluster).value();
  };
  EXPECT_NEAR(seconds(0, 0), 1e-6, 1e-15);
  EXPECT_NEAR(seconds(0, 1'000'000'000), 1e-6 + 2e-3, 1e-12);
  const double large = 2.0 * 4096 * 4096 * 4096;
  EXPECT_NEAR(seconds(large, 0), 1e-6 + large / 80e12, 1e-9);
  EXPECT_NEAR(seconds(large, 1'000'000'000), 1e-6 + 2e-3, 1e-9);
  const double small = 2.0 * 64 * 64 * 64;
  EXPECT_NEAR(seconds(small, 0), 1e-6 + small / 20e12, 1e-12);
}

}  // namespace
}  // namespace fourfold::test
