// Times of operations against formulas.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/operation_time.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "fourfold/schedule/wire.hpp"

#include "tests/cluster/small_cluster.hpp"

namespace fourfold::test {
namespace {

using cluster::Cluster;
using cluster::GroupShape;
using cluster::Library;
using cluster::NcclAlgorithm;
using plan::OperationTime;
using schedule::Collective;
using schedule::DType;
using schedule::Op;
using schedule::Priority;

Cluster own_cluster() {
  Cluster cluster = small_cluster();
  cluster.network.library = Library::kFourfold;
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

const GroupShape kHost{4, 4, 1, 1};    // 1 us, 100 GB/s
const GroupShape kApart{16, 1, 4, 1};  // 5 us, 5 GB/s

TEST(OwnAlgorithms, ARingTakesItsStepsAndItsBytes) {
  const Cluster cluster = own_cluster();
  const double chunk = 40e3;  // less than a segment
  const Collective gather{.op = Op::kAllGather, .count = 16 * 10000};
  EXPECT_NEAR(seconds(gather, kApart, cluster), 15 * (5e-6 + chunk / 5e9), 1e-12);
  const Collective reduce{.op = Op::kAllReduce, .count = 16 * 10000};
  EXPECT_NEAR(seconds(reduce, kApart, cluster), 30 * (5e-6 + chunk / 5e9), 1e-12);
  EXPECT_EQ(plan::time_of(gather, kApart, cluster).nic_load, 1);
}

TEST(OwnAlgorithms, AChunkThatDoesNotDivideIsTheLargest) {
  const Collective gather{.op = Op::kAllGather, .count = 16 * 10000 - 15};
  EXPECT_NEAR(seconds(gather, kApart, own_cluster()), 15 * (5e-6 + 40e3 / 5e9), 1e-12);
}

TEST(OwnAlgorithms, SegmentsHideLatencyAndShortWindowsDoNot) {
  Cluster cluster = own_cluster();
  // Over the network eight segments of 60 KiB: their 98 us are longer than the latency.
  const double segment = 60 << 10;
  Collective gather{.op = Op::kAllGather, .count = 16 * (8 * 60 << 10) / 4};
  EXPECT_NEAR(seconds(gather, kApart, cluster), 15 * 8 * segment / 5e9 + 5e-6, 1e-12);
  // With 100 us of latency each step takes the latency and one segment.
  cluster.network.nic_latency = Seconds(1e-4);
  EXPECT_NEAR(seconds(gather, kApart, cluster), 15 * (1e-4 + segment / 5e9), 1e-12);
  // Inside a host a background operation has one segment of 256 KiB in flight.
  gather = {.op = Op::kAllGather, .priority = Priority::kBackground, .count = 4 * (3 << 18) / 4};
  EXPECT_NEAR(seconds(gather, kHost, cluster), 3 * 3 * (1e-6 + (1 << 18) / 100e9), 1e-12);
}

TEST(OwnAlgorithms, LongMessagesHaveALatencyOfTheirOwn) {
  Cluster cluster = own_cluster();
  cluster.network.measured = {{kHost, Seconds(1e-6), BytesPerSecond(1e9), Seconds(9e-6)}};
  const double bytes = 20e3;  // of a chunk, and of a message
  EXPECT_NEAR(seconds({.op = Op::kAllGather, .count = 4 * 5000}, kHost, cluster),
              3 * (9e-6 + bytes / 1e9), 1e-12);
  EXPECT_NEAR(seconds({.op = Op::kSend, .count = 5000}, kHost, cluster), 9e-6 + bytes / 1e9, 1e-12);
  EXPECT_NEAR(seconds({.op = Op::kSend, .count = 64}, kHost, cluster), 1e-6 + 256 / 1e9, 1e-12);
}

/// The links are shared in proportion to this.
TEST(OwnAlgorithms, HaveNoMoreInFlightThanAChunk) {
  const Cluster cluster = own_cluster();
  const auto in_flight = [&](Op op, std::int64_t count, Priority priority) {
    return plan::time_of({.op = op, .priority = priority, .count = count}, kApart, cluster)
        .in_flight.value();
  };
  EXPECT_EQ(in_flight(Op::kAllGather, 16 * 5000, Priority::kUrgent), 20000);
  EXPECT_EQ(in_flight(Op::kAllGather, 16 << 20, Priority::kUrgent), 8 * 60 << 10);
  EXPECT_EQ(in_flight(Op::kAllGather, 16 << 20, Priority::kBackground), 6 * 60 << 10);
  EXPECT_EQ(in_flight(Op::kSend, 5000, Priority::kUrgent), 20000);
  EXPECT_EQ(in_flight(Op::kBroadcast, 1 << 20, Priority::kUrgent), 8 * 60 << 10);
}

TEST(OwnAlgorithms, LittleDataTakesLogarithmicallyManyRounds) {
  const Cluster cluster = own_cluster();
  const Collective doubled{.op = Op::kAllReduce, .count = 256};
  EXPECT_NEAR(seconds(doubled, kApart, cluster), 4 * (5e-6 + 1024 / 5e9), 1e-12);
  const Collective circulant{.op = Op::kAllReduce, .count = 1600};
  EXPECT_NEAR(seconds(circulant, kApart, cluster), 8 * 5e-6 + 2 * 15 * 400 / 5e9, 1e-12);
  const Collective direct{.op = Op::kAllReduce, .count = 100};
  EXPECT_NEAR(seconds(direct, kHost, cluster), 1e-6 + 3 * 400 / 100e9, 1e-12);
  const Collective tree{.op = Op::kBroadcast, .count = 1000};
  EXPECT_NEAR(seconds(tree, kApart, cluster), 4 * (5e-6 + 4000 / 5e9), 1e-12);
  EXPECT_NEAR(seconds({.op = Op::kBarrier}, kApart, cluster), 4 * 5e-6, 1e-12);
}

TEST(OwnAlgorithms, PairsAndChains) {
  const Cluster cluster = own_cluster();
  const Collective send{.op = Op::kSend, .count = 1000000};
  EXPECT_NEAR(seconds(send, {2, 1, 4, 1}, cluster), 5e-6 + 4e6 / 5e9, 1e-12);
  const Collective chain{.op = Op::kBroadcast, .count = 1000000};
  EXPECT_NEAR(seconds(chain, kApart, cluster), 15 * 5e-6 + 14 * (60 << 10) / 5e9 + 4e6 / 5e9,
              1e-12);
}

/// All members but one send the tensor once; until the last one is done it takes longer.
TEST(OwnAlgorithms, BroadcastsFillTheirWay) {
  const Cluster cluster = own_cluster();
  const Collective chain{.op = Op::kBroadcast, .count = 1000000};
  OperationTime time = plan::time_of(chain, kApart, cluster);
  EXPECT_NEAR(time.transfer.value(), 4e6 / 5e9 * 15 / 16, 1e-12);
  EXPECT_NEAR((time.latency - time.fill).value(), 5e-6, 1e-12);
  const Collective tree{.op = Op::kReduce, .count = 1000};
  time = plan::time_of(tree, kApart, cluster);
  EXPECT_NEAR(time.transfer.value(), 4000 / 5e9 * 15 / 16, 1e-12);
  EXPECT_NEAR((time.latency - time.fill).value(), 5e-6, 1e-12);
  const Collective ring{.op = Op::kAllGather, .count = 16 * 10000};
  EXPECT_EQ(plan::time_of(ring, kApart, cluster).fill, Seconds());
}

TEST(OwnAlgorithms, AnExchangeSendsFromAllMembersAtOnce) {
  // Two hosts of four: a ring leaves a host once, at 10 GB/s (one NIC). In an exchange four members
  // share 20 GB/s, and four of the seven others are on the other host.
  const Cluster cluster = own_cluster();
  const GroupShape shape{8, 4, 1, 1};
  const Collective c{.op = Op::kReduceScatter, .dtype = DType::kBF16, .count = 8 << 20};
  const double chunk = 2 << 20;
  EXPECT_NEAR(seconds(c, shape, cluster), 5e-6 + 4 * chunk / 5e9, 1e-9);
  Collective f32 = c;
  f32.dtype = DType::kF32;
  const double hop = (6 * 1e-6 + 2 * 5e-6) / 8;
  EXPECT_NEAR(seconds(f32, shape, cluster), 7 * 2 * chunk / 10e9 + hop, 1e-9);
}

/// The most that a rank sends; of a broadcast, whose roots take turns, the mean of all ranks.
TEST(OwnAlgorithms, BytesAreThoseOnTheWire) {
  const Cluster cluster = own_cluster();
  for (const Op op : {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter, Op::kBroadcast}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
      for (const std::int64_t each : {1, 16, 1000, 100000}) {
        for (const int p : {2, 3, 4, 7, 8, 16, 32}) {
          const Collective c{.op = op, .dtype = dtype, .count = p * each};
          double most = 0;
          double all = 0;
          for (int index = 0; index < p; ++index) {
            const auto sent = static_cast<double>(schedule::traffic_of(c, p, index).bytes.value());
            most = std::max(most, sent);
            all += sent;
          }
          const double expected = op == Op::kBroadcast ? all / p : most;
          const GroupShape shape{p, p, 1, 1};
          const double bytes = plan::time_of(c, shape, cluster).transfer.value() * 100e9;
          EXPECT_NEAR(bytes, expected, 1e-6 * expected) << c << " among " << p;
        }
      }
    }
  }
}

TEST(NcclAlgorithms, Ring) {
  const Cluster cluster = nccl_cluster({NcclAlgorithm::kRing});
  const double size = 160e3;
  Collective c{.op = Op::kAllReduce, .count = 40000};
  EXPECT_NEAR(seconds(c, kApart, cluster), 1e-6 + 30 * 5e-6 + 30.0 / 16 * size / 5e9, 1e-12);
  c.op = Op::kAllGather;
  EXPECT_NEAR(seconds(c, kApart, cluster), 1e-6 + 15 * 5e-6 + 15.0 / 16 * size / 5e9, 1e-12);
  c.op = Op::kBroadcast;
  EXPECT_NEAR(seconds(c, kApart, cluster), 1e-6 + 15 * 5e-6 + size / 5e9, 1e-12);
  c.op = Op::kSend;
  EXPECT_NEAR(seconds(c, {2, 1, 4, 1}, cluster), 1e-6 + 5e-6 + size / 5e9, 1e-12);
}

TEST(NcclAlgorithms, TheFastestIsTaken) {
  const Cluster cluster = nccl_cluster({NcclAlgorithm::kRing, NcclAlgorithm::kTree});
  const GroupShape shape{64, 4, 1, 1};
  const Collective little{.op = Op::kAllReduce, .count = 1000};
  EXPECT_NEAR(seconds(little, shape, cluster), 1e-6 + 2 * (3 * 1e-6 + 4 * 5e-6) + 2 * 4000 / 20e9,
              1e-12);
  const Collective much{.op = Op::kAllReduce, .count = 1 << 28};
  const double hop = (48 * 1e-6 + 16 * 5e-6) / 64;
  EXPECT_NEAR(seconds(much, shape, cluster), 1e-6 + 126 * hop + 126.0 / 64 * (1 << 30) / 20e9,
              1e-9);
  // A tree cannot gather.
  const Collective gather{.op = Op::kAllGather, .count = 1000};
  EXPECT_NEAR(seconds(gather, shape, cluster), 1e-6 + 63 * hop + 63.0 / 64 * 4000 / 20e9, 1e-12);
}

TEST(NcclAlgorithms, TwoLevelsHaveFewerSteps) {
  const Cluster cluster = nccl_cluster({NcclAlgorithm::kTwoLevel, NcclAlgorithm::kRing});
  const GroupShape shape{64, 4, 1, 1};
  const Collective gather{.op = Op::kAllGather, .count = 64000};
  const double size = 256e3;
  const double inside = 3 * 1e-6 + 3.0 / 4 * size / 100e9;
  const double between = 15 * 5e-6 + 15.0 / 16 * size / 4 / 5e9;
  EXPECT_NEAR(seconds(gather, shape, cluster), 1e-6 + inside + between, 1e-12);
  Collective reduce = gather;
  reduce.op = Op::kAllReduce;
  const double both_ways = 30 * 5e-6 + 30.0 / 16 * size / 4 / 5e9;
  EXPECT_NEAR(seconds(reduce, shape, cluster), 1e-6 + 2 * inside + both_ways, 1e-12);
  const OperationTime time = plan::time_of(gather, shape, cluster);
  EXPECT_GT(time.nic_load, 0.5);
  EXPECT_LT(time.nic_load, 1);
  EXPECT_GT(time.inside_load, 0);
  // Inside a host there is one level only.
  EXPECT_NEAR(seconds(gather, kHost, cluster), 1e-6 + inside, 1e-12);
}

}  // namespace
}  // namespace fourfold::test
