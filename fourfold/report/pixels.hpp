// Draws a row of spans as rectangles that are at least a pixel wide.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fourfold/comm/timeline.hpp"
#include "fourfold/report/scale.hpp"

namespace fourfold::report {

struct Block {
  double begin = 0;  ///< in pixels
  double end = 0;
  std::string colour;
  const comm::Span* span = nullptr;  ///< the span, if the block is only one
};

/// The parts of the spans inside the scale, which is in seconds. A span of less than a pixel shares
/// its pixel with others. The pixel gets the colour that covers most of it, and neighbours of one
/// colour become one block. So there are never more blocks than spans, nor more than twice the
/// number of pixels. Narrow blocks come first, since they may reach under wide ones.
std::vector<Block> blocks_of(const std::vector<comm::Span>& spans, const Scale& scale,
                             const std::function<std::string(const comm::Span&)>& colour_of);

}  // namespace fourfold::report
