// Where the members of groups are.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/cluster/group_shape.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"

namespace fourfold::test {
namespace {

using cluster::GroupShape;
using cluster::pair_shape;
using cluster::part_shape;
using cluster::shape_of;
using grid::Axes;
using grid::Axis;
using grid::Grid;

TEST(GroupShape, InsideAndBetweenHosts) {
  const Grid grid({.x = 2, .y = 4, .z = 2, .data = 4});  // strides 1, 2, 8, 16
  EXPECT_EQ(shape_of(grid, Axis::kX, 4), (GroupShape{2, 2, 2, 1}));
  EXPECT_EQ(shape_of(grid, Axis::kY, 4), (GroupShape{4, 2, 2, 2}));
  EXPECT_EQ(shape_of(grid, Axis::kY, 8), (GroupShape{4, 4, 2, 2}));
  EXPECT_EQ(shape_of(grid, Axis::kZ, 4), (GroupShape{2, 1, 4, 1}));
  EXPECT_EQ(shape_of(grid, Axis::kData, 8), (GroupShape{4, 1, 8, 1}));
  EXPECT_EQ(shape_of(grid, Axes({Axis::kY, Axis::kX}), 4), (GroupShape{8, 4, 1, 1}));
  EXPECT_EQ(shape_of(grid, Axes({Axis::kX, Axis::kZ}), 4), (GroupShape{4, 2, 2, 1}));
  EXPECT_EQ(shape_of(grid, Axis::kPipe, 4), (GroupShape{1, 1, 4, 1}));
  EXPECT_EQ(shape_of(grid, Axes(), 4), (GroupShape{1, 1, 4, 1}));
  EXPECT_TRUE(shape_of(grid, Axis::kY, 4).spans_hosts());
  EXPECT_EQ(shape_of(grid, Axis::kY, 4).hosts(), 2);
  EXPECT_FALSE(shape_of(grid, Axis::kX, 4).spans_hosts());
}

TEST(GroupShape, PlacementDecides) {
  const Grid grid({.x = 4, .data = 4}, grid::parse_placement("data,x,y,z,pipe"));
  EXPECT_EQ(shape_of(grid, Axis::kData, 4), (GroupShape{4, 4, 1, 1}));
  EXPECT_EQ(shape_of(grid, Axis::kX, 4), (GroupShape{4, 1, 4, 1}));
}

TEST(GroupShape, FewerRanksThanDevicesOfAHost) {
  EXPECT_EQ(shape_of(Grid({.x = 2, .y = 2}), Axis::kX, 8), (GroupShape{2, 2, 2, 1}));
}

TEST(GroupShape, GroupsThatStraddleHosts) {
  // Ranks 0 1 2 | 3 4 5 | 6 7 8 | 9 10 11 on hosts of four: groups 3-5 and 6-8 are on two hosts.
  const Grid grid({.x = 3, .y = 4});
  EXPECT_EQ(shape_of(grid, Axis::kX, 4), (GroupShape{3, 1, 2, 1}));
  // Along y: {0,3,6,9} has two members on the first host and one on each other; every group leaves
  // its hosts.
  EXPECT_EQ(shape_of(grid, Axis::kY, 4), (GroupShape{4, 1, 3, 1}));
}

/// Counts by the definition, from the members of all groups of so many ranks.
GroupShape counted(const Grid& grid, const Axes& axes, int ranks, int gpus) {
  std::map<int, std::set<std::vector<int>>> leaving;
  std::map<int, std::set<std::vector<int>>> staying;
  int fewest = ranks;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    auto members = grid.part(axes, ranks, rank).members;
    std::sort(members.begin(), members.end());
    std::map<int, int> hosts;
    for (const int member : members) ++hosts[member / gpus];
    for (const auto& [host, count] : hosts) {
      fewest = std::min(fewest, count);
      (hosts.size() > 1 ? leaving : staying)[host].insert(members);
    }
  }
  GroupShape shape{.members = ranks, .per_host = fewest, .siblings = 0};
  for (const auto& [host, groups] : leaving.empty() ? staying : leaving) {
    shape.siblings = std::max(shape.siblings, static_cast<int>(groups.size()));
  }
  return shape;
}

TEST(GroupShape, EqualsTheDefinitionOnRandomGrids) {
  std::mt19937 random(1);
  const auto draw = [&](std::vector<int> from) { return from[random() % from.size()]; };
  for (int i = 0; i < 400; ++i) {
    grid::Placement placement = grid::kDefaultPlacement;
    std::shuffle(placement.begin(), placement.end(), random);
    const auto size = [&] { return draw({1, 1, 2, 2, 3, 4}); };
    const Grid grid({.x = size(), .y = size(), .z = size(), .data = size(), .pipe = size()},
                    placement);
    const Axes& axes = grid::all_lists_of_axes()[random() % grid::all_lists_of_axes().size()];
    const int gpus = draw({1, 2, 3, 4, 6, 8});
    for (const int ranks : grid::divisors(grid.size(axes))) {
      GroupShape shape = part_shape(grid, axes, ranks, gpus);
      shape.stride = 1;
      EXPECT_EQ(shape, counted(grid, axes, ranks, gpus))
          << grid << ", " << ranks << " ranks over " << axes << ", hosts of " << gpus;
    }
  }
}

TEST(GroupShape, Pairs) {
  const Grid grid({.x = 2, .pipe = 4});
  EXPECT_EQ(pair_shape(grid, Axis::kPipe, 0, 1, 4), (GroupShape{2, 2, 2, 2}));
  EXPECT_EQ(pair_shape(grid, Axis::kPipe, 1, 2, 4), (GroupShape{2, 1, 2, 1}));
  EXPECT_EQ(pair_shape(grid, Axis::kPipe, 3, 0, 4), (GroupShape{2, 1, 2, 1}));
  EXPECT_EQ(pair_shape(grid, Axis::kPipe, 0, 3, 8), (GroupShape{2, 2, 2, 6}));
}

/// The same from all ranks.
GroupShape counted_pair(const Grid& grid, Axis axis, int from, int to, int gpus_per_host) {
  std::map<int, int> leaving;
  std::map<int, int> staying;
  int distance = 0;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    grid::Coord coord = grid.coord_of(rank);
    if (coord[axis] != from) continue;
    coord[axis] = to;
    const int peer = grid.rank_of(coord);
    distance = std::abs(peer - rank);
    ++(peer / gpus_per_host == rank / gpus_per_host ? staying : leaving)[rank / gpus_per_host];
  }
  int siblings = 1;
  const bool spans = !leaving.empty();
  for (const auto& [host, count] : spans ? leaving : staying) siblings = std::max(siblings, count);
  return {2, spans ? 1 : 2, siblings, spans ? 1 : distance};
}

TEST(GroupShape, PairsAreCountedOnAllHosts) {
  std::mt19937 random(3);
  const auto pick = [&](int most) { return 1 + static_cast<int>(random() % most); };
  for (int i = 0; i < 300; ++i) {
    std::vector<Axis> order(grid::kAllAxes.begin(), grid::kAllAxes.end());
    std::shuffle(order.begin(), order.end(), random);
    grid::Placement placement;
    std::copy(order.begin(), order.end(), placement.begin());
    const int pipe = 1 + pick(5);
    const grid::Sizes sizes{
        .x = pick(3), .y = pick(4), .z = pick(3), .data = pick(4), .pipe = pipe};
    const Grid grid(sizes, placement);
    const int from = pick(pipe) - 1;
    const int to = (from + pick(pipe - 1)) % pipe;
    const int gpus = pick(8);
    EXPECT_EQ(pair_shape(grid, Axis::kPipe, from, to, gpus),
              counted_pair(grid, Axis::kPipe, from, to, gpus))
        << sizes << " placed " << grid::to_string(placement) << ", " << from << " to " << to << ", "
        << gpus << " a host";
  }
}

TEST(GroupShape, Parts) {
  const Grid grid({.x = 4, .y = 2});
  EXPECT_EQ(part_shape(grid, Axis::kX, 4, 4), shape_of(grid, Axis::kX, 4));
  EXPECT_EQ(part_shape(grid, Axis::kX, 2, 4), (GroupShape{2, 2, 2, 1}));
  EXPECT_EQ(part_shape(grid, Axis::kX, 2, 8), (GroupShape{2, 2, 4, 1}));
  EXPECT_EQ(part_shape(grid, Axis::kX, 2, 1), (GroupShape{2, 1, 1, 1}));
  // Neighbours along x are two ranks apart.
  const Grid apart({.x = 4, .y = 2}, grid::parse_placement("y,x,z,data,pipe"));
  EXPECT_EQ(part_shape(apart, Axis::kX, 2, 4), (GroupShape{2, 2, 2, 2}));
  EXPECT_EQ(part_shape(apart, Axis::kX, 2, 2), (GroupShape{2, 1, 2, 1}));
}

TEST(GroupShape, IsShown) {
  EXPECT_EQ(concat(GroupShape{8, 2, 2, 2}), "8 members, 2 a host at distance 2, 2 groups a host");
}

}  // namespace
}  // namespace fourfold::test
