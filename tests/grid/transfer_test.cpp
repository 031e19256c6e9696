// Transfers between layouts and grids, by holding shards and copying the pieces.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/grid/transfer.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"

#include "tests/grid/tensors.hpp"

namespace fourfold::test {
namespace {

using grid::Axes;
using grid::Axis;
using grid::Block;
using grid::Distribution;
using grid::Grid;
using grid::Layout;
using grid::Piece;
using grid::Shape;

constexpr Axis kX = Axis::kX;
constexpr Axis kY = Axis::kY;
constexpr Axis kZ = Axis::kZ;

/// What one rank holds of a global tensor, padded, dense: 1 + the element's global offset, 0 in the
/// padding.
struct Shard {
  Block block;
  Shape shape;
  std::vector<std::size_t> values;

  /// The place of a global element in the shard.
  std::size_t& value(const std::vector<std::int64_t>& index) {
    std::vector<std::int64_t> local = index;
    for (std::size_t d = 0; d < local.size(); ++d) local[d] -= block.ranges[d].begin;
    return values.at(offset_of(shape, local));
  }
};

Shard empty_shard(const Distribution& distribution, int rank) {
  Shard shard{distribution.layout.block(distribution.shape, distribution.grid,
                                        distribution.grid.coord_of(rank)),
              distribution.layout.shard_shape(distribution.shape, distribution.grid),
              {}};
  shard.values.assign(static_cast<std::size_t>(elements_of(shard.shape)), 0);
  return shard;
}

Shard full_shard(const Distribution& distribution, int rank) {
  Shard shard = empty_shard(distribution, rank);
  for_each_element(shard.block, [&](const auto& index) {
    shard.value(index) = 1 + offset_of(distribution.shape, index);
  });
  return shard;
}

bool inside(const Block& small, const Block& large) {
  for (std::size_t d = 0; d < small.ranges.size(); ++d) {
    if (small.ranges[d].begin < large.ranges[d].begin) return false;
    if (small.ranges[d].end > large.ranges[d].end) return false;
  }
  return true;
}

/// Copies the pieces of one rank out of the shards of `from`; the result must be its shard of `to`.
void check_rank(const Distribution& from, const Distribution& to, int rank,
                std::vector<Shard>& held) {
  const std::vector<Piece> pieces = grid::intersect(from, to, rank);
  Shard made = empty_shard(to, rank);
  for (const Piece& piece : pieces) {
    ASSERT_GT(piece.block.elements(), 0);
    ASSERT_TRUE(inside(piece.block, made.block)) << piece.block;
    ASSERT_GE(piece.source, 0);
    ASSERT_LT(piece.source, from.grid.ranks());
    Shard& source = held[static_cast<std::size_t>(piece.source)];
    ASSERT_TRUE(inside(piece.block, source.block)) << "rank " << piece.source << " lacks it";
    if (rank < from.grid.ranks() && piece.source != rank) {
      const Block& own = held[static_cast<std::size_t>(rank)].block;
      ASSERT_FALSE(inside(piece.block, own)) << "rank " << rank << " holds it itself";
    }
    for_each_element(piece.block, [&](const auto& index) {
      ASSERT_EQ(made.value(index), 0U) << "copied twice";
      made.value(index) = source.value(index);
    });
  }
  ASSERT_EQ(made.values, full_shard(to, rank).values);
}

void check_transfer(const Distribution& from, const Distribution& to) {
  std::vector<Shard> held;
  for (int rank = 0; rank < from.grid.ranks(); ++rank) held.push_back(full_shard(from, rank));
  for (int rank = 0; rank < to.grid.ranks(); ++rank) {
    check_rank(from, to, rank, held);
    if (testing::Test::HasFatalFailure()) {
      FAIL() << testing::PrintToString(from.shape) << " from " << from.layout << " on " << from.grid
             << " to " << to.layout << " on " << to.grid << ", rank " << rank;
    }
  }
}

struct Worlds {
  int from;
  int to;
};

class TransferBetween : public testing::TestWithParam<Worlds> {};
INSTANTIATE_TEST_SUITE_P(Worlds, TransferBetween,
                         testing::Values(Worlds{1, 1}, Worlds{8, 8}, Worlds{8, 6}, Worlds{6, 8},
                                         Worlds{1, 12}, Worlds{12, 1}, Worlds{16, 27},
                                         Worlds{24, 24}),
                         [](const auto& test) {
                           return std::to_string(test.param.from) + "_to_" +
                                  std::to_string(test.param.to);
                         });

TEST_P(TransferBetween, LayoutsAndGridsAtRandom) {
  std::mt19937 random(static_cast<unsigned>(100 * GetParam().from + GetParam().to));
  for (int i = 0; i < 150; ++i) {
    Shape shape(1 + random() % 3);
    for (auto& size : shape) size = static_cast<std::int64_t>(random() % 12);
    const auto dims = shape.size();
    const Distribution from{shape, random_layout(dims, random),
                            random_grid(GetParam().from, random)};
    const Distribution to{shape, random_layout(dims, random), random_grid(GetParam().to, random)};
    ASSERT_NO_FATAL_FAILURE(check_transfer(from, to));
  }
}

TEST(Transfer, ToTheSameSpreadCopiesOwnBlocksOnly) {
  const Distribution distribution{
      {7, 5}, Layout({Axes{kY, kZ}, kX}), Grid({.x = 2, .y = 2, .z = 2, .data = 2})};
  for (int rank = 0; rank < distribution.grid.ranks(); ++rank) {
    const Block own = distribution.layout.block(distribution.shape, distribution.grid,
                                                distribution.grid.coord_of(rank));
    const auto pieces = grid::intersect(distribution, distribution, rank);
    if (own.elements() == 0) {
      EXPECT_TRUE(pieces.empty());
    } else {
      EXPECT_EQ(pieces, (std::vector<Piece>{{rank, own}}));
    }
  }
}

TEST(Transfer, ByHand) {
  const Distribution from{{6}, Layout({Axes{kX}}), Grid({.x = 3})};
  const Distribution to{{6}, Layout({Axes{kY}}), Grid({.y = 2})};
  EXPECT_EQ(grid::intersect(from, to, 0), (std::vector<Piece>{{0, {{{0, 2}}}}, {1, {{{2, 3}}}}}));
  EXPECT_EQ(grid::intersect(from, to, 1), (std::vector<Piece>{{1, {{{3, 4}}}}, {2, {{{4, 6}}}}}));
}

TEST(Transfer, OfAScalar) {
  const Distribution from{{}, Layout(), Grid({.x = 3})};
  const Distribution to{{}, Layout(), Grid({.x = 5})};
  for (int rank = 0; rank < 5; ++rank) {
    const auto pieces = grid::intersect(from, to, rank);
    ASSERT_EQ(pieces.size(), 1U);
    EXPECT_EQ(pieces[0].source, rank < 3 ? rank : rank % 3);
  }
}

TEST(Transfer, ReadersSpreadOverTheHolders) {
  // Four ranks hold all of it; ranks 4 to 11 hold none of it before.
  const Distribution from{{8}, Layout({Axes{}}), Grid({.x = 4})};
  const Distribution to{{8}, Layout({Axes{}}), Grid({.x = 12})};
  std::map<int, int> readers;
  for (int rank = 0; rank < 12; ++rank) {
    const auto pieces = grid::intersect(from, to, rank);
    ASSERT_EQ(pieces.size(), 1U);
    if (rank < 4) {
      EXPECT_EQ(pieces[0].source, rank);
    }
    ++readers[pieces[0].source];
  }
  EXPECT_EQ(readers, (std::map<int, int>{{0, 3}, {1, 3}, {2, 3}, {3, 3}}));
}

TEST(Transfer, RefusesASumThatIsNotDone) {
  const Grid grid({.x = 2, .y = 2});
  const Distribution partial{{4}, Layout({Axes{kX}}, kY), grid};
  const Distribution plain{{4}, Layout({Axes{kX}}), grid};
  EXPECT_THROW(grid::intersect(partial, plain, 0), InvariantError);
}

TEST(Transfer, RefusesDifferentShapes) {
  const Grid grid({.x = 2});
  const Layout layout({kX, Axes{}});
  EXPECT_THROW(grid::intersect({{4, 3}, layout, grid}, {{3, 4}, layout, grid}, 0), InvariantError);
  EXPECT_THROW(grid::intersect({{4}, Layout({Axes{kX}}), grid}, {{4, 1}, layout, grid}, 0),
               InvariantError);
}

TEST(Transfer, RefusesALayoutOfAnotherRank) {
  const Grid grid({.x = 2});
  const Distribution right{{4, 4}, Layout({kX, Axes{}}), grid};
  const Distribution wrong{{4, 4}, Layout({Axes{kX}}), grid};
  EXPECT_THROW(grid::intersect(right, wrong, 0), InvariantError);
  EXPECT_THROW(grid::intersect(wrong, right, 0), InvariantError);
}

TEST(Transfer, RefusesARankOutsideOfTheTarget) {
  const Distribution from{{4}, Layout({Axes{kX}}), Grid({.x = 4})};
  const Distribution to{{4}, Layout({Axes{kX}}), Grid({.x = 2})};
  EXPECT_THROW(grid::intersect(from, to, 2), InvariantError);
}

TEST(Transfer, EmptyBlocksNeedNothing) {
  const Distribution from{{2}, Layout({Axes{}}), Grid({.x = 4})};
  const Distribution to{{2}, Layout({Axes{kX}}), Grid({.x = 4})};
  EXPECT_EQ(grid::intersect(from, to, 1).size(), 1U);
  EXPECT_TRUE(grid::intersect(from, to, 2).empty());
  EXPECT_TRUE(grid::intersect(from, to, 3).empty());
  const Distribution nothing{{3, 0}, Layout({kX, kY}), Grid({.x = 2, .y = 2})};
  EXPECT_TRUE(grid::intersect(nothing, nothing, 0).empty());
}

}  // namespace
}  // namespace fourfold::test
