// Times of compute against formulas.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/compute_time.hpp"

#include <gtest/gtest.h>

#include "tests/cluster/small_cluster.hpp"

namespace fourfold::test {
namespace {

TEST(ComputeTime, IsLimitedByArithmeticOrMemory) {
  const cluster::Cluster cluster = small_cluster();
  const auto product = [&](std::int64_t side, std::int64_t bytes) {
    const schedule::Arithmetic work =
        schedule::product_of({side, side, side}, schedule::DType::kBF16, Bytes(bytes));
    return plan::seconds_of({.name = "work", .arithmetic = work}, cluster).value();
  };
  const double large = 2.0 * 4096 * 4096 * 4096;
  EXPECT_NEAR(product(4096, 0), 1e-6 + large / 80e12, 1e-9);
  EXPECT_NEAR(product(4096, 1'000'000'000), 1e-6 + 2e-3, 1e-9);
  const double small = 2.0 * 64 * 64 * 64;
  EXPECT_NEAR(product(64, 0), 1e-6 + small / 20e12, 1e-12);
}

TEST(ComputeTime, DependsOnTheSmallestExtentAndTheTypeOfAProduct) {
  const auto seconds = [](const schedule::Extent& extent, schedule::DType dtype) {
    const schedule::Arithmetic work = schedule::product_of(extent, dtype, Bytes(0));
    return plan::seconds_of({.name = "work", .arithmetic = work}, small_cluster()).value();
  };
  const double flops = 2.0 * 64 * 4096 * 4096;
  for (const schedule::Extent& extent :
       {schedule::Extent{64, 4096, 4096}, schedule::Extent{4096, 64, 4096},
        schedule::Extent{4096, 4096, 64}}) {
    EXPECT_NEAR(seconds(extent, schedule::DType::kBF16), 1e-6 + flops / 20e12, 1e-12);
    EXPECT_NEAR(seconds(extent, schedule::DType::kF32), 1e-6 + flops / 2e12, 1e-12);
  }
}

TEST(ComputeTime, DependsOnTheKindOfWork) {
  cluster::Cluster cluster = small_cluster();
  cluster.device.attention_efficiency = 0.5;
  const auto seconds = [&](schedule::Work work, double flops, std::int64_t bytes) {
    const schedule::Arithmetic done{.work = work,
                                    .dtype = schedule::DType::kBF16,
                                    .flops = Flops(flops),
                                    .bytes = Bytes(bytes)};
    return plan::seconds_of({.name = "work", .arithmetic = done}, cluster).value();
  };
  using schedule::Work;
  EXPECT_NEAR(seconds(Work::kMemory, 0, 0), 1e-6, 1e-15);
  EXPECT_NEAR(seconds(Work::kMemory, 1e15, 1'000'000'000), 1e-6 + 2e-3, 1e-12);
  EXPECT_NEAR(seconds(Work::kOptimizer, 1e15, 1'000'000'000), 1e-6 + 2e-3, 1e-12);
  const double peak = cluster.device.bf16.value();
  EXPECT_NEAR(seconds(Work::kAttention, 1e12, 0), 1e-6 + 1e12 / (0.5 * peak), 1e-9);
}

/// CPUs convert bf16 to f32 and back around attention. GPUs do not.
TEST(ComputeTime, OfAttentionInBf16IsThatOfTheDevice) {
  cluster::Cluster cluster = small_cluster();
  const auto seconds = [&](schedule::Work work, double flops, std::int64_t bytes) {
    const schedule::Arithmetic done{
        .work = work, .flops = Flops(flops), .bytes = Bytes(bytes), .widened = true};
    return plan::seconds_of({.name = "work", .arithmetic = done}, cluster).value();
  };
  using schedule::Work;
  cluster.network.library = cluster::Library::kNccl;
  EXPECT_NEAR(seconds(Work::kAttention, 1e12, 0), 1e-6 + 1e12 / 40e12, 1e-9);
  EXPECT_NEAR(seconds(Work::kAttention, 0, 1'000'000'000), 1e-6 + 1e-3, 1e-9);
  EXPECT_EQ(seconds(Work::kMemory, 0, 1'000'000'000), 0);
  cluster.network.library = cluster::Library::kFourfold;
  EXPECT_NEAR(seconds(Work::kAttention, 1e12, 0), 1e-6 + 1e12 / 4e12, 1e-9);
  EXPECT_NEAR(seconds(Work::kAttention, 0, 1'000'000'000), 1e-6 + 2e-3, 1e-9);
  EXPECT_NEAR(seconds(Work::kMemory, 0, 1'000'000'000), 1e-6 + 2e-3, 1e-9);
}

}  // namespace
}  // namespace fourfold::test
