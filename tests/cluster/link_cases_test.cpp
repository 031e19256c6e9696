// The speed of groups in rarer cases: more NICs than devices, classes of measured groups that
// differ in one number, measurements above what the links are said to carry, pairs that go back.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/cluster/cluster.hpp"

#include "tests/cluster/small_cluster.hpp"

namespace fourfold::test {
namespace {

using cluster::Cluster;
using cluster::GroupShape;

TEST(LinkCases, ADeviceUsesAllNicsThatAreNear) {
  Cluster cluster = small_cluster();
  cluster.network.nics = 8;  // two for each of four devices, 10e9 each
  EXPECT_EQ(cluster.link({2, 1, 1, 1}).bandwidth, BytesPerSecond(20e9));
  EXPECT_EQ(cluster.link({4, 2, 1, 1}).bandwidth, BytesPerSecond(40e9));
  EXPECT_EQ(cluster.link({8, 4, 1, 1}).bandwidth, BytesPerSecond(80e9));
}

TEST(LinkCases, SiblingsLoadTheNicsTogether) {
  const Cluster cluster = small_cluster();
  EXPECT_EQ(cluster.link({2, 1, 4, 1}).nic_load, 1);
  EXPECT_EQ(cluster.link({4, 2, 2, 1}).nic_load, 1);
}

TEST(LinkCases, OtherSiblingsAndDistancesAreOtherClasses) {
  Cluster cluster = small_cluster();
  const auto derived = [&](const GroupShape& shape) { return cluster.link(shape).bandwidth; };
  const BytesPerSecond fewer_siblings = derived({32, 2, 1, 2});
  const BytesPerSecond shorter_distance = derived({32, 2, 2, 1});
  cluster.network.measured = {{{16, 2, 2, 2}, Seconds(3e-6), BytesPerSecond(7e9)}};
  EXPECT_EQ(cluster.link({32, 2, 2, 2}).bandwidth, BytesPerSecond(7e9)) << "the same class";
  EXPECT_EQ(cluster.link({32, 2, 1, 2}).bandwidth, fewer_siblings);
  EXPECT_EQ(cluster.link({32, 2, 2, 1}).bandwidth, shorter_distance);
}

TEST(LinkCases, AMeasurementAboveTheLinkUsesItInFull) {
  Cluster cluster = small_cluster();
  cluster.network.measured = {{{2, 2, 2, 2}, Seconds(3e-6), BytesPerSecond(150e9)},
                              {{16, 4, 1, 1}, Seconds(4e-6), BytesPerSecond(30e9)}};
  EXPECT_EQ(cluster.link({2, 2, 2, 2}).inside_load, 1);
  EXPECT_EQ(cluster.link({16, 4, 1, 1}).nic_load, 1);
}

TEST(LinkCases, EfficiencyLiesBetweenTheNearestPoints) {
  cluster::Device device = small_cluster().device;
  device.product_efficiency = {{64, 0.2}, {1024, 0.8}, {4096, 0.9}};
  EXPECT_NEAR(device.efficiency_of_product(2048, 2048, 2048), 0.85, 1e-12);
}

TEST(LinkCases, APairThatGoesBackHasTheSameDistance) {
  const grid::Grid grid({.x = 2, .pipe = 4});
  EXPECT_EQ(cluster::pair_shape(grid, grid::Axis::kPipe, 3, 0, 8), (GroupShape{2, 2, 2, 6}));
}

}  // namespace
}  // namespace fourfold::test
