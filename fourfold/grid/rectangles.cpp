// SPDX-License-Identifier: Apache-2.0
#include "fourfold/grid/rectangles.hpp"

#include "fourfold/base/check.hpp"

namespace fourfold::grid {

namespace {

/// Adds the rectangles of elements of the dimensions from `dim` on, at the indices `before`.
void add_rectangles(const Range& flat, const Shape& shape, std::size_t dim, const Block& before,
                    std::vector<Block>& result) {
  if (flat.empty()) return;
  const auto with = [&](const Range& range) {
    Block block = before;
    block.ranges.push_back(range);
    return block;
  };
  if (dim + 1 == shape.size()) {
    result.push_back(with(flat));
    return;
  }
  std::int64_t row = 1;
  for (std::size_t d = dim + 1; d < shape.size(); ++d) row *= shape[d];
  const auto add_part = [&](std::int64_t index, std::int64_t begin, std::int64_t end) {
    add_rectangles({begin, end}, shape, dim + 1, with({index, index + 1}), result);
  };
  std::int64_t first = flat.begin / row;
  const std::int64_t last = flat.end / row;
  if (first == last) return add_part(first, flat.begin % row, flat.end % row);
  if (flat.begin % row != 0) add_part(first++, flat.begin % row, row);
  if (first < last) {
    Block whole = with({first, last});
    for (std::size_t d = dim + 1; d < shape.size(); ++d) whole.ranges.push_back({0, shape[d]});
    result.push_back(std::move(whole));
  }
  if (flat.end % row != 0) add_part(last, 0, flat.end % row);
}

}  // namespace

std::vector<Block> rectangles(const Range& flat, const Shape& shape) {
  FOURFOLD_CHECK(!shape.empty(), "a tensor without dimensions has no rectangles");
  std::vector<Block> result;
  add_rectangles(flat, shape, 0, {}, result);
  return result;
}

Block intersect(const Block& a, const Block& b) {
  FOURFOLD_CHECK_EQ(a.ranges.size(), b.ranges.size(), "dimensions of ", a, " and of ", b);
  Block result;
  for (std::size_t d = 0; d < a.ranges.size(); ++d) {
    result.ranges.push_back(intersect(a.ranges[d], b.ranges[d]));
  }
  return result;
}

Block moved(Block inner, const Block& outer) {
  for (std::size_t d = 0; d < inner.ranges.size(); ++d) {
    inner.ranges[d].begin += outer.ranges[d].begin;
    inner.ranges[d].end += outer.ranges[d].begin;
  }
  return inner;
}

Block relative(Block block, const Block& outer) {
  for (std::size_t d = 0; d < block.ranges.size(); ++d) {
    block.ranges[d].begin -= outer.ranges[d].begin;
    block.ranges[d].end -= outer.ranges[d].begin;
  }
  return block;
}

}  // namespace fourfold::grid
