// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/pixels.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace fourfold::report {

using comm::Span;

namespace {

/// The share of a pixel that each colour covers.
using Shares = std::map<std::string, double>;

const std::string& winner(const Shares& shares) {
  return std::max_element(shares.begin(), shares.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace

std::vector<Block> blocks_of(const std::vector<Span>& spans, const Scale& scale,
                             const std::function<std::string(const Span&)>& colour_of) {
  std::vector<Block> wide;
  std::map<long, Shares> narrow;  // by pixel
  for (const Span& span : spans) {
    if (span.end.value() <= scale.low || span.begin.value() >= scale.high) continue;
    const double begin = std::max(scale.begin, scale(span.begin.value()));
    const double end = std::min(scale.end, scale(span.end.value()));
    if (end - begin >= 1) {
      wide.push_back({begin, end, colour_of(span), &span});
    } else {
      narrow[std::lround(std::floor(begin))][colour_of(span)] += end - begin;
    }
  }
  std::vector<Block> blocks;
  for (const auto& [pixel, shares] : narrow) {
    const auto begin = static_cast<double>(pixel);
    const std::string& colour = winner(shares);
    if (!blocks.empty() && blocks.back().end == begin && blocks.back().colour == colour) {
      blocks.back().end += 1;
    } else {
      blocks.push_back({begin, begin + 1, colour, nullptr});
    }
  }
  blocks.insert(blocks.end(), wide.begin(), wide.end());
  return blocks;
}

}  // namespace fourfold::report
