// A row of spans as rectangles that are not smaller than a pixel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fourfold/comm/timeline.hpp"
#include "fourfold/report/scale.hpp"

namespace fourfold::report {

struct Block {
  double begin = 0;  ///< pixels
  double end = 0;
  std::string colour;
  const comm::Span* span = nullptr;  ///< if it is only one
};

/// What of the spans lies inside the scale, which is in seconds. A span below a pixel shares its
/// pixel with others: the colour that has most of it wins, and neighbours of one colour become one
/// block. So there are never more blocks than spans, nor than twice as many as pixels. Narrow
/// blocks come first, since they may reach under wide ones.
std::vector<Block> blocks_of(const std::vector<comm::Span>& spans, const Scale& scale,
                             const std::function<std::string(const comm::Span&)>& colour_of);

}  // namespace fourfold::report
