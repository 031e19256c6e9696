// Layouts: blocks tile the tensor, padding is nested, replicas hold the same block.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/grid/layout.hpp"

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"

#include "tests/grid/tensors.hpp"

namespace fourfold::test {
namespace {

using grid::Axes;
using grid::Axis;
using grid::Block;
using grid::Coord;
using grid::Grid;
using grid::kAllAxes;
using grid::Layout;
using grid::Range;
using grid::Shape;

constexpr Axis kX = Axis::kX;
constexpr Axis kY = Axis::kY;
constexpr Axis kZ = Axis::kZ;
constexpr Axis kData = Axis::kData;

bool same_where(const Coord& a, const Coord& b, const auto& holds) {
  return std::all_of(kAllAxes.begin(), kAllAxes.end(),
                     [&](Axis axis) { return !holds(axis) || a[axis] == b[axis]; });
}

/// The replicas by definition: every rank with the same coordinates along the named axes.
std::vector<int> expected_replicas(const Layout& layout, const Grid& grid, int rank) {
  std::vector<int> same;
  for (int other = 0; other < grid.ranks(); ++other) {
    const auto named = [&](Axis a) { return layout.splits(a) || layout.partial().contains(a); };
    if (same_where(grid.coord_of(rank), grid.coord_of(other), named)) same.push_back(other);
  }
  return same;
}

void check_fits(const Block& block, const Shape& shard) {
  ASSERT_EQ(block.ranges.size(), shard.size());
  for (std::size_t d = 0; d < shard.size(); ++d) {
    ASSERT_GE(block.ranges[d].size(), 0);
    ASSERT_LE(block.ranges[d].size(), shard[d]);
  }
}

/// Every element lies once in each set of replicas and each summand, and every block fits.
void check_tiling(const Shape& shape, const Layout& layout, const Grid& grid) {
  std::vector<int> all(static_cast<std::size_t>(elements_of(shape)), 0);
  std::vector<int> first_replicas = all;
  int split = 1;
  for (Axis axis : kAllAxes) split *= layout.splits(axis) ? grid.size(axis) : 1;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const Coord coord = grid.coord_of(rank);
    const Block block = layout.block(shape, grid, coord);
    ASSERT_NO_FATAL_FAILURE(check_fits(block, layout.shard_shape(shape, grid)));
    const std::vector<int> replicas = layout.replicas(grid, coord);
    ASSERT_EQ(replicas, expected_replicas(layout, grid, rank));
    for (int replica : replicas) {
      ASSERT_EQ(layout.block(shape, grid, grid.coord_of(replica)), block);
    }
    for_each_element(block, [&](const auto& index) {
      ++all[offset_of(shape, index)];
      if (replicas.front() == rank) ++first_replicas[offset_of(shape, index)];
    });
  }
  ASSERT_EQ(all, std::vector<int>(all.size(), grid.ranks() / split));
  ASSERT_EQ(first_replicas, std::vector<int>(all.size(), grid.size(layout.partial())));
}

std::vector<Grid> grids() {
  return {Grid(), Grid({.x = 2, .y = 3, .z = 2}), Grid({.x = 3, .z = 2, .data = 2, .pipe = 2}),
          Grid({.y = 3, .z = 5}, grid::parse_placement("z,data,y,pipe,x")),
          Grid({.x = 2, .y = 2, .z = 2, .data = 2}, grid::parse_placement("data,pipe,z,x,y"))};
}

void check_on_every_grid(const Shape& shape, const Layout& layout) {
  for (const Grid& grid : grids()) {
    check_tiling(shape, layout, grid);
    if (testing::Test::HasFatalFailure()) {
      FAIL() << testing::PrintToString(shape) << " as " << layout << " on " << grid;
    }
  }
}

/// The first `count` axes of each permutation of them.
std::vector<std::vector<Axis>> permutations(std::size_t count) {
  std::vector<Axis> axes(kAllAxes.begin(), kAllAxes.end());
  std::vector<std::vector<Axis>> all;
  do {
    all.emplace_back(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(count));
    std::reverse(axes.begin() + static_cast<std::ptrdiff_t>(count), axes.end());
  } while (std::next_permutation(axes.begin(), axes.end()));
  return all;
}

TEST(LayoutTiling, OneDimension) {
  for (std::size_t count = 0; count <= 5; ++count) {
    for (const auto& axes : permutations(count)) {
      for (std::int64_t n : {0, 1, 2, 5, 7, 10, 24, 37}) {
        ASSERT_NO_FATAL_FAILURE(check_on_every_grid({n}, Layout({Axes(axes)})));
      }
    }
  }
}

TEST(LayoutTiling, TwoDimensions) {
  for (const auto& axes : permutations(3)) {
    for (std::ptrdiff_t cut = 0; cut <= 3; ++cut) {
      const Layout layout({Axes(std::vector(axes.begin(), axes.begin() + cut)),
                           Axes(std::vector(axes.begin() + cut, axes.end()))});
      for (const Shape& shape : {Shape{5, 7}, Shape{0, 4}, Shape{3, 0}, Shape{1, 13}, Shape{8, 6}})
        ASSERT_NO_FATAL_FAILURE(check_on_every_grid(shape, layout));
    }
  }
}

TEST(LayoutTiling, ThreeDimensionsAtRandom) {
  std::mt19937 random(2);
  for (int i = 0; i < 400; ++i) {
    Shape shape(3);
    for (auto& size : shape) size = static_cast<std::int64_t>(random() % 7);
    ASSERT_NO_FATAL_FAILURE(check_on_every_grid(shape, random_layout(3, random)));
  }
}

TEST(LayoutTiling, WithSummands) {
  for (const auto& axes : permutations(4)) {
    const Layout layout({axes[0], axes[1]}, {axes[2], axes[3]});
    ASSERT_NO_FATAL_FAILURE(check_on_every_grid({5, 4}, layout));
  }
}

TEST(LayoutTiling, NoDimensions) {
  ASSERT_NO_FATAL_FAILURE(check_on_every_grid({}, Layout()));
  EXPECT_EQ(Layout().block({}, Grid(), {}).elements(), 1);
}

Coord at(int y, int z) {
  Coord coord;
  coord[kY] = y;
  coord[kZ] = z;
  return coord;
}

TEST(LayoutPadding, WorkedExample) {
  const Grid grid({.y = 3, .z = 2});
  EXPECT_EQ(grid::shard_size(10, kY, grid), 4);
  EXPECT_EQ(grid::shard_size(10, {kY, kZ}, grid), 2);
  const std::vector<std::vector<Range>> expected = {
      {{0, 2}, {2, 4}}, {{4, 6}, {6, 8}}, {{8, 10}, {10, 10}}};
  for (int y = 0; y < 3; ++y) {
    for (int z = 0; z < 2; ++z) {
      EXPECT_EQ(grid::range_along(10, {kY, kZ}, grid, at(y, z)),
                expected[static_cast<std::size_t>(y)][static_cast<std::size_t>(z)])
          << y << " " << z;
    }
  }
  // The other way around z cuts first, in halves of 5.
  EXPECT_EQ(grid::shard_size(10, {kZ, kY}, grid), 2);
  EXPECT_EQ(grid::range_along(10, {kZ, kY}, grid, at(2, 0)), (Range{4, 5}));
  EXPECT_EQ(grid::range_along(10, {kZ, kY}, grid, at(0, 1)), (Range{5, 7}));
}

TEST(LayoutPadding, CoarseBlocksDoNotDependOnFinerCuts) {
  for (int gy = 1; gy <= 5; ++gy) {
    for (int gz = 1; gz <= 5; ++gz) {
      const Grid grid({.y = gy, .z = gz});
      for (std::int64_t n = 0; n <= 30; ++n) {
        for (int y = 0; y < gy; ++y) {
          const Range coarse = grid::range_along(n, kY, grid, at(y, 0));
          const Range first = grid::range_along(n, {kY, kZ}, grid, at(y, 0));
          const Range last = grid::range_along(n, {kY, kZ}, grid, at(y, gz - 1));
          EXPECT_EQ((Range{first.begin, last.end}), coarse);
        }
      }
    }
  }
}

TEST(LayoutPadding, OnlyTheEndIsPadded) {
  const Grid grid({.y = 4});
  EXPECT_EQ(grid::shard_size(9, kY, grid), 3);
  EXPECT_EQ(grid::range_along(9, kY, grid, at(2, 0)), (Range{6, 9}));
  EXPECT_EQ(grid::range_along(9, kY, grid, at(3, 0)), (Range{9, 9}));
  EXPECT_EQ(grid::shard_size(2, kY, grid), 1);
  EXPECT_EQ(grid::range_along(2, kY, grid, at(1, 0)), (Range{1, 2}));
  EXPECT_TRUE(grid::range_along(2, kY, grid, at(2, 0)).empty());
  EXPECT_EQ(grid::shard_size(0, kY, grid), 0);
  EXPECT_EQ(grid::shard_size(std::int64_t{1} << 40, kY, grid), std::int64_t{1} << 38);
}

TEST(Layout, ShardShapeByHand) {
  const Grid grid({.x = 2, .y = 3, .z = 2, .data = 2});
  const Layout activations({Axes{kData, kZ, kY}, kX});
  EXPECT_EQ(activations.shard_shape({24, 7}, grid), (Shape{2, 4}));
  const Layout weights({Axes{kY, kZ}, kX});
  EXPECT_EQ(weights.shard_shape({10, 8}, grid), (Shape{2, 4}));
  EXPECT_EQ(Layout({Axes{}, Axes{}}).shard_shape({10, 8}, grid), (Shape{10, 8}));
}

TEST(Layout, ReplicasAreInRankOrderOnEveryPlacement) {
  const Layout over_x({kX});
  EXPECT_EQ(over_x.replicas(Grid({.x = 2, .y = 2, .z = 2}), Coord()), (std::vector{0, 2, 4, 6}));
  const Grid other({.x = 2, .y = 2, .z = 2}, grid::parse_placement("z,x,y,data,pipe"));
  EXPECT_EQ(over_x.replicas(other, Coord()), (std::vector{0, 1, 4, 5}));
  EXPECT_EQ(over_x.replicas(other, other.coord_of(7)), (std::vector{2, 3, 6, 7}));
  const Layout summands({kX}, kY);
  EXPECT_EQ(summands.replicas(other, other.coord_of(7)), (std::vector{6, 7}));
}

TEST(Layout, KnowsWhatSplits) {
  const Layout layout({Axes{kData, kZ}, kX}, kY);
  EXPECT_EQ(layout.rank(), 2U);
  EXPECT_EQ(layout.dim(0), (Axes{kData, kZ}));
  EXPECT_EQ(layout.partial(), Axes(kY));
  EXPECT_TRUE(layout.splits(kZ));
  EXPECT_TRUE(layout.splits(kX));
  EXPECT_FALSE(layout.splits(kY));
  EXPECT_FALSE(layout.splits(Axis::kPipe));
}

TEST(Layout, RefusesAnAxisNamedTwice) {
  EXPECT_THROW(Layout({kX, kX}), InvariantError);
  EXPECT_THROW(Layout({Axes{kY, kX}, Axes{kZ, kY}}), InvariantError);
  EXPECT_THROW(Layout({kX, kY}, kX), InvariantError);
  EXPECT_THROW(Layout({Axes{kX, kX}}), InvariantError);
  EXPECT_THROW(Axes(std::vector{kY, kZ, kY}), InvariantError);
  try {
    Layout({kData, kX}, kX);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InvariantError& error) {
    EXPECT_NE(std::string(error.what()).find("axis x is used twice in [data, x] partial(x)"),
              std::string::npos)
        << error.what();
  }
}

TEST(Layout, RefusesAShapeOfAnotherRank) {
  const Layout layout({kX, kY});
  EXPECT_THROW(layout.shard_shape({4}, Grid()), InvariantError);
  EXPECT_THROW(layout.block({4, 4, 4}, Grid(), Coord()), InvariantError);
}

TEST(Layout, Compares) {
  EXPECT_EQ(Layout({Axes{kX, kY}, kZ}), Layout({Axes{kX, kY}, kZ}));
  EXPECT_NE(Layout({Axes{kX, kY}, kZ}), Layout({Axes{kY, kX}, kZ}));
  EXPECT_NE(Layout({kX, kZ}), Layout({kZ, kX}));
  EXPECT_NE(Layout({Axes{kX}}), Layout({Axes{kX}}, kY));
  EXPECT_NE(Layout({kX, Axes{}}), Layout({Axes{kX}}));
}

TEST(Layout, Prints) {
  EXPECT_EQ(grid::to_string(Layout({Axes{kData, kZ, kY}, kX})), "[data+z+y, x]");
  EXPECT_EQ(grid::to_string(Layout({Axes{}, kX}, {kZ, kY})), "[-, x] partial(z+y)");
  EXPECT_EQ(grid::to_string(Layout()), "[]");
  EXPECT_EQ(grid::to_string(Block{{{0, 4}, {8, 12}}}), "[0:4, 8:12]");
  std::ostringstream out;
  out << Layout({Axes{kY}}) << " " << Block{{{1, 2}}};
  EXPECT_EQ(out.str(), "[y] [1:2]");
}

TEST(Range, Intersects) {
  EXPECT_EQ(grid::intersect(Range{0, 5}, Range{3, 8}), (Range{3, 5}));
  EXPECT_EQ(grid::intersect(Range{3, 8}, Range{0, 5}), (Range{3, 5}));
  EXPECT_EQ(grid::intersect(Range{0, 9}, Range{3, 4}), (Range{3, 4}));
  for (const Range& other : {Range{5, 8}, Range{7, 9}, Range{2, 2}}) {
    const Range shared = grid::intersect(Range{0, 5}, other);
    EXPECT_TRUE(shared.empty());
    EXPECT_EQ(shared.size(), 0);
  }
}

}  // namespace
}  // namespace fourfold::test
