// SPDX-License-Identifier: Apache-2.0
#include "fourfold/grid/rectangles.hpp"

#include <gtest/gtest.h>

namespace fourfold::grid {
namespace {

/// The flat indices of the elements of a block, in row-major order.
std::vector<std::int64_t> elements_of(const Block& block, const Shape& shape) {
  std::vector<std::int64_t> result = {0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> next;
    for (const std::int64_t before : result) {
      for (std::int64_t i = block.ranges[d].begin; i < block.ranges[d].end; ++i) {
        next.push_back(before * shape[d] + i);
      }
    }
    result = std::move(next);
  }
  return result;
}

TEST(Rectangles, HaveEveryElementOnceInOrder) {
  for (const Shape& shape :
       {Shape{7}, Shape{3, 4}, Shape{1, 5}, Shape{3, 2, 4}, Shape{2, 1, 3}, Shape{2, 3, 2, 2}}) {
    std::int64_t size = 1;
    for (const std::int64_t n : shape) size *= n;
    for (std::int64_t begin = 0; begin <= size; ++begin) {
      for (std::int64_t end = begin; end <= size; ++end) {
        std::vector<std::int64_t> found;
        const std::vector<Block> blocks = rectangles({begin, end}, shape);
        EXPECT_LE(blocks.size(), 2 * shape.size() - 1);
        for (const Block& block : blocks) {
          EXPECT_GT(block.elements(), 0);
          const std::vector<std::int64_t> more = elements_of(block, shape);
          found.insert(found.end(), more.begin(), more.end());
        }
        ASSERT_EQ(static_cast<std::int64_t>(found.size()), end - begin);
        for (std::int64_t i = begin; i < end; ++i) {
          ASSERT_EQ(found[static_cast<std::size_t>(i - begin)], i);
        }
      }
    }
  }
}

TEST(Rectangles, OfWholeRowsAreOne) {
  const Block expected{{{1, 3}, {0, 4}}};
  EXPECT_EQ(rectangles({4, 12}, {5, 4}), std::vector{expected});
  EXPECT_TRUE(rectangles({4, 4}, {5, 4}).empty());
}

TEST(Rectangles, AreCutAndMoved) {
  const Block a{{{0, 4}, {2, 8}}};
  const Block b{{{3, 9}, {0, 5}}};
  EXPECT_EQ(intersect(a, b), (Block{{{3, 4}, {2, 5}}}));
  EXPECT_EQ(intersect(a, Block{{{4, 9}, {0, 5}}}).elements(), 0);
  EXPECT_EQ(moved(a, b), (Block{{{3, 7}, {2, 8}}}));
  EXPECT_EQ(relative(moved(a, b), b), a);
}

}  // namespace
}  // namespace fourfold::grid
