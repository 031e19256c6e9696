// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fourfold/base/text.hpp"
#include "fourfold/nn/grouped_attention.hpp"

namespace fourfold::nn {

std::vector<std::int64_t> GroupedHeads::order() const {
  const std::int64_t d = head_size;
  const std::int64_t r = group();
  const std::int64_t keys = heads * d;              // the place of the first key
  const std::int64_t values = keys + kv_heads * d;  // and of the first value
  std::vector<std::int64_t> places;
  const auto add = [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) places.push_back(first + i);
  };
  const std::int64_t slice = sliced() ? d / r : d;
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t kv = head / r;
    add(head * d, d);
    if (!sliced() && head % r + 1 < r) continue;
    const std::int64_t first = kv * d + (sliced() ? head % r * slice : 0);
    add(keys + first, slice);
    add(values + first, slice);
  }
  return places;
}

std::string GroupedHeads::misfit(int ranks) const {
  if (heads % ranks != 0) return concat(heads, " heads cannot be split over ", ranks, " ranks");
  const std::int64_t local = heads / ranks;
  const bool whole_groups = local % group() == 0;
  if (whole_groups || (sliced() && group() % local == 0)) return {};
  return concat(kv_heads, " heads of keys and values cannot be shared by ", ranks, " ranks");
}

std::string grouped_misfit(ProductKind product, const GroupedHeads& heads, const grid::Sizes& g,
                           std::int64_t samples) {
  if (product == ProductKind::kSumma) return heads.misfit(g.x);
  const std::string reason = heads.misfit(g.x * g.y);
  const std::int64_t local = samples / (std::int64_t{g.data} * g.z);
  if (reason.empty() || (heads.misfit(g.y).empty() && local % g.x == 0)) return {};
  return concat(reason, " (x=", g.x, " times y=", g.y, "), nor ", local,
                " samples of a rank over x");
}

HeadSplit grouped_split(ProductKind product, const GroupedHeads& heads, const grid::Sizes& sizes) {
  if (product == ProductKind::kSumma) return HeadSplit::kSquare;
  return heads.misfit(sizes.x * sizes.y).empty() ? HeadSplit::kHeads : HeadSplit::kSamples;
}

}  // namespace fourfold::nn
