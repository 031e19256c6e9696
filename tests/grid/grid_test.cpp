// The process grid: ranks and coordinates, groups, factorisations, texts.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/grid/grid.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"

namespace fourfold::test {
namespace {

using grid::Axes;
using grid::Axis;
using grid::Coord;
using grid::Grid;
using grid::Group;
using grid::kAllAxes;
using grid::Placement;
using grid::Sizes;

const Axes kFive = {Axis::kX, Axis::kY, Axis::kZ, Axis::kData, Axis::kPipe};
const Axes kFour = {Axis::kX, Axis::kY, Axis::kZ, Axis::kData};

/// The default, its reverse, and some at random.
std::vector<Placement> placements() {
  std::vector<Placement> all = {grid::kDefaultPlacement};
  Placement placement = grid::kDefaultPlacement;
  std::reverse(placement.begin(), placement.end());
  all.push_back(placement);
  std::mt19937 random(1);
  for (int i = 0; i < 4; ++i) {
    std::shuffle(placement.begin(), placement.end(), random);
    all.push_back(placement);
  }
  return all;
}

std::int64_t product(const Sizes& s) {
  return std::int64_t{1} * s.x * s.y * s.z * s.data * s.pipe;
}

std::array<int, 5> key(const Sizes& s) {
  return {s.x, s.y, s.z, s.data, s.pipe};
}

/// The text of the ConfigError that `body` throws.
template <class Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

#define EXPECT_SAYS(text, piece) \
  EXPECT_NE(std::string(text).find(piece), std::string::npos) << (text)

bool in_range(const Grid& grid, const Coord& coord) {
  return std::all_of(kAllAxes.begin(), kAllAxes.end(),
                     [&](Axis axis) { return coord[axis] >= 0 && coord[axis] < grid.size(axis); });
}

/// True when rank and coordinate are each other's inverse; coordinates are then all different.
bool is_bijection(const Grid& grid) {
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const Coord coord = grid.coord_of(rank);
    if (!in_range(grid, coord) || grid.rank_of(coord) != rank) return false;
  }
  return true;
}

TEST(Grid, RankAndCoordAreABijection) {
  for (const Placement& placement : placements()) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      for (const Sizes& sizes : grid::factorisations(ranks, kFive)) {
        const Grid grid(sizes, placement);
        ASSERT_EQ(grid.ranks(), ranks);
        ASSERT_TRUE(is_bijection(grid)) << grid;
      }
    }
  }
}

TEST(Grid, FirstAxisOfThePlacementRunsFastest) {
  const Grid grid({.x = 2, .y = 3, .z = 4, .data = 5, .pipe = 6});
  EXPECT_EQ(grid.stride(Axis::kX), 1);
  EXPECT_EQ(grid.stride(Axis::kY), 2);
  EXPECT_EQ(grid.stride(Axis::kZ), 6);
  EXPECT_EQ(grid.stride(Axis::kData), 24);
  EXPECT_EQ(grid.stride(Axis::kPipe), 120);
  const Grid other({.x = 2, .y = 3, .z = 4}, grid::parse_placement("z,data,x,pipe,y"));
  EXPECT_EQ(other.stride(Axis::kZ), 1);
  EXPECT_EQ(other.stride(Axis::kX), 4);
  EXPECT_EQ(other.stride(Axis::kY), 8);
}

TEST(Grid, StrideIsTheDistanceOfNeighbours) {
  for (const Placement& placement : placements()) {
    const Grid grid({.x = 2, .y = 3, .z = 2, .data = 2, .pipe = 2}, placement);
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      for (Axis axis : kAllAxes) {
        Coord next = grid.coord_of(rank);
        if (++next[axis] == grid.size(axis)) continue;
        EXPECT_EQ(grid.rank_of(next) - rank, grid.stride(axis));
      }
    }
  }
}

TEST(Grid, SizeOfSeveralAxesIsTheirProduct) {
  const Grid grid({.x = 2, .y = 3, .data = 5});
  EXPECT_EQ(grid.size(Axes{}), 1);
  EXPECT_EQ(grid.size(Axes{Axis::kY, Axis::kX}), 6);
  EXPECT_EQ(grid.size(kFive), 30);
  EXPECT_EQ(Grid().ranks(), 1);
}

TEST(Grid, RefusesWhatIsOutside) {
  const Grid grid({.x = 2, .y = 3});
  EXPECT_THROW(grid.coord_of(-1), InvariantError);
  EXPECT_THROW(grid.coord_of(6), InvariantError);
  Coord coord;
  coord[Axis::kX] = 2;
  EXPECT_THROW(grid.rank_of(coord), InvariantError);
  coord[Axis::kX] = -1;
  EXPECT_THROW(grid.rank_of(coord), InvariantError);
  EXPECT_THROW(grid.group(Axis::kX, 6), InvariantError);
}

TEST(Grid, RefusesBadSizes) {
  EXPECT_SAYS(refusal([] { Grid({.y = 0}); }), "y=0");
  EXPECT_SAYS(refusal([] { Grid({.data = -2}); }), "data=-2");
  EXPECT_SAYS(refusal([] { Grid({.x = 1 << 16, .y = 1 << 16}); }), "2^31");
  EXPECT_SAYS(refusal([] { Grid({.x = 1 << 30, .y = 1 << 30, .z = 1 << 30}); }), "2^31");
  EXPECT_EQ(Grid({.x = 1 << 15, .y = 1 << 15}).ranks(), 1 << 30);
  Placement twice = grid::kDefaultPlacement;
  twice[0] = Axis::kY;
  EXPECT_THROW(Grid({}, twice), InvariantError);
}

TEST(Grid, EqualityIncludesThePlacement) {
  EXPECT_EQ(Grid({.x = 2}), Grid({.x = 2}));
  EXPECT_NE(Grid({.x = 2}), Grid({.y = 2}));
  EXPECT_NE(Grid({.x = 2}), Grid({.x = 2}, grid::parse_placement("y,x,z,data,pipe")));
}

/// Every ordered list of different axes of at most `longest`.
std::vector<Axes> axes_lists(std::size_t longest) {
  std::vector<std::vector<Axis>> lists = {{}};
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (lists[i].size() == longest) continue;
    for (Axis axis : kAllAxes) {
      std::vector<Axis> next = lists[i];
      if (std::find(next.begin(), next.end(), axis) != next.end()) continue;
      next.push_back(axis);
      lists.push_back(std::move(next));
    }
  }
  std::vector<Axes> all;
  for (auto& list : lists) all.emplace_back(std::move(list));
  return all;
}

/// Members differ in the group's axes only, and stand in the order of their coordinates there, read
/// as the digits of a number whose last digit is the last axis.
void check_members(const Grid& grid, const Group& group, int rank) {
  const Coord self = grid.coord_of(rank);
  std::vector<std::vector<int>> digits;
  for (int member : group.members) {
    const Coord coord = grid.coord_of(member);
    for (Axis axis : kAllAxes) {
      if (!group.axes.contains(axis)) {
        ASSERT_EQ(coord[axis], self[axis]);
      }
    }
    auto& number = digits.emplace_back();
    for (Axis axis : group.axes) number.push_back(coord[axis]);
  }
  ASSERT_TRUE(std::is_sorted(digits.begin(), digits.end())) << group;
  ASSERT_EQ(std::set(digits.begin(), digits.end()).size(), digits.size()) << group;
}

void check_groups(const Grid& grid, const Axes& axes) {
  std::vector<int> seen(static_cast<std::size_t>(grid.ranks()), 0);
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const Group group = grid.group(axes, rank);
    ASSERT_EQ(group.axes, axes);
    ASSERT_EQ(group.size(), grid.size(axes));
    ASSERT_EQ(group.members[static_cast<std::size_t>(group.index)], rank);
    ASSERT_EQ(group.index, grid.index_along(axes, grid.coord_of(rank)));
    ASSERT_NO_FATAL_FAILURE(check_members(grid, group, rank));
    for (int member : group.members) {
      ASSERT_EQ(grid.group(axes, member).members, group.members);
    }
    if (group.index == 0) {
      for (int member : group.members) ++seen[static_cast<std::size_t>(member)];
    }
  }
  ASSERT_EQ(seen, std::vector<int>(seen.size(), 1)) << "groups do not partition the world";
}

TEST(GridGroup, OverEveryListOfAxes) {
  const std::vector<Sizes> grids = {
      {.x = 2, .y = 3, .z = 2, .data = 2}, {.x = 2, .y = 2, .pipe = 3}, {.x = 4, .data = 2}, {}};
  for (const Placement& placement : placements()) {
    for (const Sizes& sizes : grids) {
      for (const Axes& axes : axes_lists(5)) {
        const Grid grid(sizes, placement);
        check_groups(grid, axes);
        if (testing::Test::HasFatalFailure()) FAIL() << grid << " over " << axes;
      }
    }
  }
}

TEST(GridGroup, ByHand) {
  const Grid grid({.x = 2, .y = 3, .z = 2});
  const Group over_x = grid.group(Axis::kX, 9);
  EXPECT_EQ(over_x.members, (std::vector<int>{8, 9}));
  EXPECT_EQ(over_x.index, 1);
  EXPECT_EQ(grid.group(Axis::kY, 9).members, (std::vector<int>{7, 9, 11}));
  EXPECT_EQ(grid.group({Axis::kY, Axis::kX}, 0).members, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(grid.group({Axis::kX, Axis::kY}, 0).members, (std::vector<int>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(grid.group({Axis::kX, Axis::kY}, 3).index, 4);
  EXPECT_EQ(grid.group({}, 9).members, (std::vector<int>{9}));
}

TEST(GridGroup, PartsCutAGroupIntoRunsOfItsMembers) {
  const Grid grid({.x = 4, .y = 3, .z = 2});
  for (const Axes& axes : grid::all_lists_of_axes()) {
    for (const int ranks : grid::divisors(grid.size(axes))) {
      for (int rank = 0; rank < grid.ranks(); ++rank) {
        const Group whole = grid.group(axes, rank);
        const Group part = grid.part(axes, ranks, rank);
        ASSERT_EQ(part.axes, axes);
        ASSERT_EQ(part.size(), ranks);
        ASSERT_EQ(part.index, whole.index % ranks);
        for (int i = 0; i < ranks; ++i) {
          const int place = whole.index / ranks * ranks + i;
          ASSERT_EQ(part.members[static_cast<std::size_t>(i)],
                    whole.members[static_cast<std::size_t>(place)]);
        }
      }
    }
  }
  EXPECT_EQ(grid.part(Axis::kX, 2, 7).members, (std::vector<int>{6, 7}));
  EXPECT_EQ(grid.part({Axis::kY, Axis::kX}, 6, 2).members, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(grid.part({Axis::kX, Axis::kY}, 6, 2).members, (std::vector<int>{2, 6, 10, 3, 7, 11}));
  EXPECT_THROW(grid.part(Axis::kX, 3, 0), InvariantError);
  EXPECT_THROW(grid.part(Axis::kX, 0, 0), InvariantError);
}

TEST(GridGroup, EveryoneIsInRankOrder) {
  for (const Placement& placement : placements()) {
    const Grid grid({.x = 2, .y = 3, .z = 2, .data = 2, .pipe = 2}, placement);
    std::vector<int> ranks(48);
    std::iota(ranks.begin(), ranks.end(), 0);
    for (int rank : ranks) {
      const Group group = grid.everyone(rank);
      EXPECT_EQ(group.members, ranks);
      EXPECT_EQ(group.index, rank);
      EXPECT_EQ(group.axes.size(), grid::kAxisCount);
    }
  }
}

/// The number of ordered ways to write n as a product of `factors` numbers.
std::size_t count_products(int n, int factors) {
  if (factors == 1) return 1;
  std::size_t count = 0;
  for (int d = 1; d <= n; ++d) {
    if (n % d == 0) count += count_products(n / d, factors - 1);
  }
  return count;
}

TEST(Factorisations, AreAllAndDifferentAndInOrder) {
  EXPECT_EQ(grid::factorisations(8, kFour).size(), 20U);
  EXPECT_EQ(grid::factorisations(12, kFour).size(), 40U);
  EXPECT_EQ(grid::factorisations(27, kFour).size(), 20U);
  EXPECT_EQ(grid::factorisations(64, kFour).size(), 84U);
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const auto all = grid::factorisations(ranks, kFour);
    std::set<std::array<int, 5>> different;
    std::vector<std::array<int, 5>> keys;
    for (const Sizes& sizes : all) {
      EXPECT_EQ(product(sizes), ranks);
      EXPECT_EQ(sizes.pipe, 1);
      different.insert(key(sizes));
      keys.push_back(key(sizes));
    }
    EXPECT_EQ(all.size(), count_products(ranks, 4));
    EXPECT_EQ(different.size(), all.size());
    EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  }
}

TEST(Factorisations, OverFewAxes) {
  EXPECT_EQ(grid::factorisations(6, Axis::kPipe), (std::vector<Sizes>{{.pipe = 6}}));
  EXPECT_EQ(grid::factorisations(3, {Axis::kData, Axis::kX}),
            (std::vector<Sizes>{{.x = 3}, {.data = 3}}));
  EXPECT_EQ(grid::factorisations(1, Axes{}), (std::vector<Sizes>{{}}));
  EXPECT_TRUE(grid::factorisations(2, Axes{}).empty());
  EXPECT_THROW(grid::factorisations(0, kFour), InvariantError);
}

TEST(GridText, SizesAreRead) {
  EXPECT_EQ(grid::parse_sizes("data=1,x=2,y=3,z=4"), (Sizes{.x = 2, .y = 3, .z = 4}));
  EXPECT_EQ(grid::parse_sizes(" pipe = 2 , x=5"), (Sizes{.x = 5, .pipe = 2}));
  EXPECT_EQ(grid::parse_sizes(""), Sizes{});
  EXPECT_EQ(grid::parse_sizes("x=2147483647").x, 2147483647);
}

TEST(GridText, BadSizesAreNamed) {
  const auto refuse = [](const char* text) { return refusal([&] { grid::parse_sizes(text); }); };
  EXPECT_SAYS(refuse("x=2,y"), "'y'");
  EXPECT_SAYS(refuse("x=2,,y=2"), "''");
  EXPECT_SAYS(refuse("x=2,"), "''");
  EXPECT_SAYS(refuse("x=2,w=2"), "'w'");
  EXPECT_SAYS(refuse("x=2,w=2"), "x, y, z, data, pipe");
  for (const char* piece : {"y=0", "y=-1", "y=two", "y=", "y=1.5", "y=2 2", "y=2147483648"}) {
    EXPECT_SAYS(refuse(("x=2," + std::string(piece)).c_str()), "'" + std::string(piece) + "'");
  }
  EXPECT_SAYS(refuse("x=2,y=2,x=2"), "x twice");
}

TEST(GridText, PlacementsAreRead) {
  EXPECT_EQ(grid::parse_placement("x,y,z,data,pipe"), grid::kDefaultPlacement);
  const Placement other = {Axis::kData, Axis::kZ, Axis::kPipe, Axis::kX, Axis::kY};
  EXPECT_EQ(grid::parse_placement("data, z,pipe ,x,y"), other);
  for (const Placement& placement : placements()) {
    EXPECT_EQ(grid::parse_placement(grid::to_string(placement)), placement);
  }
}

TEST(GridText, BadPlacementsAreNamed) {
  for (const char* text : {"", "x", "x,y,z,data", "x,y,z,data,pipe,x", "x,y,z,data,x"}) {
    const std::string line = refusal([&] { grid::parse_placement(text); });
    EXPECT_SAYS(line, "'" + std::string(text) + "'");
    EXPECT_SAYS(line, "x,y,z,data,pipe");
  }
  EXPECT_SAYS(refusal([] { grid::parse_placement("x,y,z,data,w"); }), "'w'");
}

TEST(GridText, IsPrinted) {
  EXPECT_EQ(grid::to_string(Grid({.x = 2, .data = 4})), "x=2 y=1 z=1 data=4 pipe=1 (8 ranks)");
  EXPECT_EQ(grid::to_string(Grid()), "x=1 y=1 z=1 data=1 pipe=1 (1 rank)");
  EXPECT_EQ(grid::to_string(Grid({.y = 2}, grid::parse_placement("pipe,y,z,data,x"))),
            "x=1 y=2 z=1 data=1 pipe=1 (2 ranks) placed pipe,y,z,data,x");
  const Grid grid({.x = 2, .y = 2, .z = 4});
  std::ostringstream out;
  out << grid.group({Axis::kY, Axis::kX}, 5) << "; " << grid.coord_of(6);
  EXPECT_EQ(out.str(), "y+x [4 5 6 7]; x=0 y=1 z=1 data=0 pipe=0");
}

TEST(GridText, AxesArePrinted) {
  EXPECT_EQ(grid::to_string(Axes{}), "none");
  EXPECT_EQ(grid::to_string(Axes{Axis::kData}), "data");
  EXPECT_EQ(grid::to_string(Axes{Axis::kY, Axis::kX}), "y+x");
  EXPECT_EQ(grid::to_string(kFive), "all");
  for (Axis axis : kAllAxes) EXPECT_EQ(grid::parse_axis(grid::to_string(axis)), axis);
  EXPECT_SAYS(refusal([] { grid::parse_axis("X"); }), "'X'");
}

}  // namespace
}  // namespace fourfold::test
