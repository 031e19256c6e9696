// The speed of groups: derived from links, and measured.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/cluster/cluster.hpp"

#include "tests/cluster/small_cluster.hpp"

namespace fourfold::test {
namespace {

using cluster::Cluster;
using cluster::GroupShape;
using cluster::Library;
using cluster::Link;
using cluster::Topology;

TEST(Link, OneMemberCostsNothing) {
  const Link link = small_cluster().link({.members = 1, .siblings = 4});
  EXPECT_EQ(link.latency, Seconds(0));
  EXPECT_EQ(link.bandwidth.value(), std::numeric_limits<double>::infinity());
}

TEST(Link, InsideAHost) {
  Cluster cluster = small_cluster();
  const Link whole = cluster.link({4, 4, 1, 1});
  EXPECT_EQ(whole.bandwidth, BytesPerSecond(100e9));
  EXPECT_EQ(whole.latency, Seconds(1e-6));
  EXPECT_EQ(whole.farthest_latency, Seconds(1e-6));
  EXPECT_EQ(whole.inside_load, 1);
  EXPECT_EQ(whole.nic_load, 0);
  // A switch gives a pair all of a device's port, a mesh one of its three links.
  EXPECT_EQ(cluster.link({2, 2, 2, 1}).bandwidth, BytesPerSecond(100e9));
  cluster.network.topology = Topology::kMesh;
  EXPECT_DOUBLE_EQ(cluster.link({2, 2, 2, 1}).bandwidth.value(), 100e9 / 3);
  EXPECT_DOUBLE_EQ(cluster.link({2, 2, 2, 1}).inside_load, 1.0 / 3);
  EXPECT_EQ(cluster.link({4, 4, 1, 1}).bandwidth, BytesPerSecond(100e9));
}

TEST(Link, BetweenHosts) {
  const Cluster cluster = small_cluster();  // two NICs carry 20e9 together
  const Link whole_hosts = cluster.link({8, 4, 1, 1});
  EXPECT_EQ(whole_hosts.bandwidth, BytesPerSecond(20e9));
  EXPECT_EQ(whole_hosts.nic_load, 1);
  EXPECT_DOUBLE_EQ(whole_hosts.inside_load, 0.2);
  // Of the eight edges of the ring two are between hosts.
  EXPECT_DOUBLE_EQ(whole_hosts.latency.value(), (6 * 1e-6 + 2 * 5e-6) / 8);
  EXPECT_EQ(whole_hosts.farthest_latency, Seconds(5e-6));
  // Four siblings share the NICs.
  EXPECT_EQ(cluster.link({2, 1, 4, 1}).bandwidth, BytesPerSecond(5e9));
  EXPECT_EQ(cluster.link({2, 1, 4, 1}).latency, Seconds(5e-6));
  EXPECT_EQ(cluster.link({2, 1, 4, 1}).inside_load, 0);
  // A member alone on its host reaches one of the NICs.
  EXPECT_EQ(cluster.link({2, 1, 1, 1}).bandwidth, BytesPerSecond(10e9));
  EXPECT_EQ(cluster.link({2, 1, 1, 1}).nic_load, 0.5);
}

TEST(Link, OurOwnRingLeavesAHostOnce) {
  Cluster cluster = small_cluster();
  cluster.network.library = Library::kFourfold;
  EXPECT_EQ(cluster.link({8, 4, 1, 1}).bandwidth, BytesPerSecond(10e9));
  EXPECT_EQ(cluster.link({8, 2, 2, 1}).bandwidth, BytesPerSecond(10e9));
  EXPECT_EQ(cluster.link({8, 1, 4, 1}).bandwidth, BytesPerSecond(5e9));
}

TEST(Link, SlowLinksInsideAHostLimitARing) {
  Cluster cluster = small_cluster();
  cluster.network.inside_bandwidth = BytesPerSecond(16e9);
  EXPECT_EQ(cluster.link({8, 4, 1, 1}).bandwidth, BytesPerSecond(8e9));
  EXPECT_EQ(cluster.link({8, 4, 1, 1}).inside_load, 1);
  EXPECT_DOUBLE_EQ(cluster.link({8, 4, 1, 1}).nic_load, 0.4);
}

TEST(Link, MeasuredGroupsWin) {
  Cluster cluster = small_cluster();
  cluster.network.measured = {{{2, 2, 2, 2}, Seconds(3e-6), BytesPerSecond(7e9)}};
  EXPECT_EQ(cluster.link({2, 2, 2, 2}).bandwidth, BytesPerSecond(7e9));
  EXPECT_EQ(cluster.link({2, 2, 2, 2}).latency, Seconds(3e-6));
  EXPECT_DOUBLE_EQ(cluster.link({2, 2, 2, 2}).inside_load, 0.07);
  EXPECT_EQ(cluster.link({2, 2, 2, 1}).bandwidth, BytesPerSecond(100e9));  // another distance
  EXPECT_EQ(cluster.link({4, 4, 2, 2}).bandwidth, BytesPerSecond(100e9));  // another size
}

TEST(Link, ValuesBetweenMeasuredGroups) {
  Cluster cluster = small_cluster();
  cluster.network.measured = {{{16, 4, 1, 1}, Seconds(4e-6), BytesPerSecond(12e9)},
                              {{64, 4, 1, 1}, Seconds(8e-6), BytesPerSecond(8e9)},
                              {{8, 1, 4, 1}, Seconds(9e-6), BytesPerSecond(1e9)}};
  const Link between = cluster.link({32, 4, 1, 1});
  EXPECT_NEAR(between.bandwidth.value(), 10e9, 1);
  EXPECT_NEAR(between.latency.value(), 6e-6, 1e-15);
  EXPECT_DOUBLE_EQ(between.nic_load, 0.5);
  EXPECT_EQ(cluster.link({8, 4, 1, 1}).bandwidth, BytesPerSecond(12e9));
  EXPECT_EQ(cluster.link({8, 4, 1, 1}).farthest_latency, Seconds(5e-6));
  EXPECT_EQ(cluster.link({512, 4, 1, 1}).bandwidth, BytesPerSecond(8e9));
  EXPECT_EQ(cluster.link({512, 4, 1, 1}).latency, Seconds(8e-6));
  EXPECT_EQ(cluster.link({32, 2, 2, 1}).bandwidth, BytesPerSecond(10e9)) << "another class";
  EXPECT_EQ(cluster.link({2, 1, 4, 1}).bandwidth, BytesPerSecond(1e9));
}

TEST(Link, LongMessagesHaveALatencyOfTheirOwn) {
  Cluster cluster = small_cluster();
  cluster.network.measured = {{{2, 2, 2, 2}, Seconds(3e-6), BytesPerSecond(7e9), Seconds(9e-6)},
                              {{16, 4, 1, 1}, Seconds(4e-6), BytesPerSecond(12e9), Seconds(6e-6)},
                              {{64, 4, 1, 1}, Seconds(8e-6), BytesPerSecond(8e9)}};
  const Link link = cluster.link({2, 2, 2, 2});
  EXPECT_EQ(link.latency_of(0), Seconds(3e-6));
  EXPECT_EQ(link.latency_of(256), Seconds(3e-6));
  EXPECT_NEAR(link.latency_of(2048).value(), 6e-6, 1e-15) << "half way on a logarithmic scale";
  EXPECT_NEAR(link.latency_of(16384).value(), 9e-6, 1e-15);
  EXPECT_NEAR(link.latency_of(1e9).value(), 9e-6, 1e-15);
  const Link between = cluster.link({32, 4, 1, 1});
  EXPECT_NEAR(between.latency_of(1e6).value(), 7e-6, 1e-15) << "8 us where nothing is said";
  EXPECT_NEAR((between.farthest_latency_of(1e6) - between.farthest_latency).value(), 1e-6, 1e-15);
  const Link derived = cluster.link({4, 4, 1, 1});
  EXPECT_EQ(derived.latency_of(1e6), derived.latency);
}

TEST(Link, ShapesThatDoNotExist) {
  EXPECT_THROW(small_cluster().link({2, 4, 1, 1}), InvariantError);
  EXPECT_THROW(small_cluster().link({2, 2, 0, 1}), InvariantError);
}

TEST(Device, EfficiencyByTheSmallestExtent) {
  const cluster::Device device = small_cluster().device;
  EXPECT_EQ(device.efficiency_of_product(64, 4096, 4096), 0.2);
  EXPECT_EQ(device.efficiency_of_product(4096, 1, 4096), 0.2);
  EXPECT_EQ(device.efficiency_of_product(4096, 4096, 1024), 0.8);
  EXPECT_EQ(device.efficiency_of_product(4096, 4096, 4096), 0.8);
  EXPECT_NEAR(device.efficiency_of_product(256, 256, 256), 0.5,
              1e-12);  // half way in the logarithm
}

TEST(Device, RatesAndMemory) {
  const cluster::Device device = small_cluster().device;
  EXPECT_EQ(device.peak(schedule::DType::kBF16), FlopsPerSecond(100e12));
  EXPECT_EQ(device.peak(schedule::DType::kF32), FlopsPerSecond(10e12));
  EXPECT_EQ(device.peak(schedule::DType::kF64), FlopsPerSecond(5e12));
  EXPECT_EQ(device.usable(), Bytes(std::int64_t{8} << 30));
}

}  // namespace
}  // namespace fourfold::test
