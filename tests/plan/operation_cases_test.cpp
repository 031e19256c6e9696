// Times of operations in cases that are rarer than those of operation_time_test.cpp: operations
// made of others, numbers of ranks that are no powers of two, groups of which some members share a
// host.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/plan/operation_time.hpp"

#include "tests/cluster/small_cluster.hpp"

namespace fourfold::test {
namespace {

using cluster::Cluster;
using cluster::GroupShape;
using cluster::NcclAlgorithm;
using schedule::Collective;
using schedule::DType;
using schedule::Op;

Cluster own_cluster() {
  Cluster cluster = small_cluster();
  cluster.network.library = cluster::Library::kFourfold;
  return cluster;
}

Cluster nccl_cluster(std::vector<NcclAlgorithm> algorithms) {
  Cluster cluster = small_cluster();
  cluster.network.algorithms = std::move(algorithms);
  return cluster;
}

double seconds(const Collective& c, const GroupShape& shape, const Cluster& cluster) {
  return plan::time_of(c, shape, cluster).total().value();
}

const GroupShape kTwoHosts{8, 4, 1, 1};

TEST(OperationCases, SumsOfBf16AreMadeOfOtherOperations) {
  const Cluster cluster = own_cluster();
  const auto of = [&](Op op) {
    return seconds({.op = op, .dtype = DType::kBF16, .count = 8 << 20}, kTwoHosts, cluster);
  };
  EXPECT_NE(of(Op::kReduceScatter), of(Op::kAllGather));
  EXPECT_NEAR(of(Op::kAllReduce), of(Op::kReduceScatter) + of(Op::kAllGather), 1e-9);
  EXPECT_NEAR(of(Op::kReduce), 2 * of(Op::kReduceScatter), 1e-9);
}

/// Three rounds among eight ranks. Before and after them the other four send to one of these and
/// receive from it.
TEST(OperationCases, DoublingAmongTwelve) {
  const Collective c{.op = Op::kAllReduce, .count = 256};
  EXPECT_NEAR(seconds(c, {12, 1, 4, 1}, own_cluster()), 5 * (5e-6 + 1024 / 5e9), 1e-12);
}

/// In every round of a tree some member sends to another host.
TEST(OperationCases, ATreeOverHostsHasTheLatencyBetweenThem) {
  const Collective c{.op = Op::kBroadcast, .count = 1000};
  EXPECT_NEAR(seconds(c, kTwoHosts, own_cluster()), 3 * (5e-6 + 4000 / 10e9), 1e-12);
}

/// Inside a host a segment is up to 4 MiB: less is forwarded as a whole.
TEST(OperationCases, AChainForwardsLessThanASegmentAsAWhole) {
  const Collective c{.op = Op::kBroadcast, .count = 500'000};
  EXPECT_NEAR(seconds(c, {4, 4, 1, 1}, own_cluster()), 3 * 1e-6 + 3 * 2e6 / 100e9, 1e-12);
}

TEST(OperationCases, WhatATreeOfNcclCanDo) {
  const GroupShape shape{64, 4, 1, 1};
  const Cluster both = nccl_cluster({NcclAlgorithm::kRing, NcclAlgorithm::kTree});
  EXPECT_NEAR(seconds({.op = Op::kBarrier}, shape, both), 1e-6 + 2 * (3 * 1e-6 + 4 * 5e-6), 1e-12);
  const Collective gather{.op = Op::kAllGather, .count = 1000};
  EXPECT_EQ(seconds(gather, shape, nccl_cluster({NcclAlgorithm::kTree})),
            seconds(gather, shape, nccl_cluster({NcclAlgorithm::kRing})));
}

/// Two levels are those of groups that are measured, too: two members of a host, two ranks apart.
TEST(OperationCases, TheInnerLevelKeepsItsDistance) {
  Cluster cluster = nccl_cluster({NcclAlgorithm::kTwoLevel});
  cluster.network.measured = {{{2, 2, 2, 2}, Seconds(3e-6), BytesPerSecond(7e9)}};
  const Collective gather{.op = Op::kAllGather, .count = 64000};
  const double size = 256e3;
  const double inside = 3e-6 + size / 2 / 7e9;
  const double between = 15 * 5e-6 + 15.0 / 16 * size / 2 / 5e9;
  EXPECT_NEAR(seconds(gather, {32, 2, 2, 2}, cluster), 1e-6 + inside + between, 1e-12);
}

}  // namespace
}  // namespace fourfold::test
