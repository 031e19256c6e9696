// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/pipeline_memory.hpp"

#include <algorithm>

#include "fourfold/train/pipeline_order.hpp"

namespace fourfold::planner {

double most_held(int places, std::int64_t passes, const std::vector<ChunkMemory>& chunks) {
  double held = 0;
  double most = 0;
  std::vector<bool> came_back(chunks.size(), false);
  const auto count = static_cast<int>(chunks.size());
  // By then all chunks have come back while the most passes are open. Later passes only repeat
  // this.
  const std::int64_t enough = std::min(passes, std::int64_t{4} * places);
  for (const train::Unit& unit : train::pipeline_units(places, 0, count, enough)) {
    const auto index = static_cast<std::size_t>(unit.chunk);
    const ChunkMemory& chunk = chunks[index];
    held += unit.forward ? chunk.pass : -chunk.pass;
    if (!unit.forward && !came_back[index]) {
      held += chunk.sums;
      came_back[index] = true;
    }
    most = std::max(most, held);
  }
  return most;
}

}  // namespace fourfold::planner
