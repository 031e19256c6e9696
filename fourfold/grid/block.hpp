// Rectangular pieces of a tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace fourfold::grid {

/// The indices begin, begin+1, ..., end-1 of one dimension.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool operator==(const Range&) const = default;
};

/// The intersection of two ranges. An empty result has begin == end.
inline Range intersect(const Range& a, const Range& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

/// One range for each dimension.
struct Block {
  std::vector<Range> ranges;

  std::int64_t elements() const {
    std::int64_t product = 1;
    for (const Range& range : ranges) product *= range.size();
    return product;
  }
  bool operator==(const Block&) const = default;
};

/// "[0:4, 8:12]".
std::string to_string(const Block& block);
std::ostream& operator<<(std::ostream& out, const Block& block);

}  // namespace fourfold::grid
