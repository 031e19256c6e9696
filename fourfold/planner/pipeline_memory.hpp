// The memory that a place of a pipeline needs for passes that are under way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace fourfold::planner {

/// What the first place of a pipeline holds for one of its chunks, in bytes.
struct ChunkMemory {
  double pass = 0;  ///< for each pass, from its forward to its backward pass
  double sums = 0;  ///< from the first backward pass to the last: sums of gradients
};

/// The most that the first place of a pipeline, which has more passes under way than any other,
/// holds at once for its chunks.
double most_held(int places, std::int64_t passes, const std::vector<ChunkMemory>& chunks);

}  // namespace fourfold::planner
