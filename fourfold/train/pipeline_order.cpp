// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/pipeline_order.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"

namespace fourfold::train {

std::vector<Unit> forward_units(int places, int chunks, std::int64_t micro_batches) {
  // As many micro-batches as there are places go through one chunk, then through the next. When the
  // last of them has left a rank, the first one arrives there again.
  std::vector<Unit> units;
  const std::int64_t group = chunks == 1 ? micro_batches : places;
  for (std::int64_t first = 0; first < micro_batches; first += group) {
    const std::int64_t end = std::min(first + group, micro_batches);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (std::int64_t m = first; m < end; ++m) units.push_back({true, chunk, m});
    }
  }
  return units;
}

std::vector<Unit> pipeline_units(int places, int place, int chunks, std::int64_t micro_batches) {
  FOURFOLD_CHECK(chunks == 1 || micro_batches % places == 0, micro_batches, " micro-batches on ",
                 places, " places");
  const std::vector<Unit> forward = forward_units(places, chunks, micro_batches);
  std::vector<Unit> backward = forward;
  for (Unit& unit : backward) unit = {false, chunks - 1 - unit.chunk, unit.micro_batch};

  // The number of passes that are between here and the end of the model, there and back.
  const std::int64_t behind = places - 1 - place;
  const std::int64_t ahead = chunks == 1 ? behind : 2 * behind + std::int64_t{chunks - 1} * places;
  const auto count = static_cast<std::int64_t>(forward.size());
  const std::int64_t start = std::min(ahead, count);
  std::vector<Unit> units(forward.begin(), forward.begin() + start);
  for (std::int64_t i = start; i < count; ++i) {
    units.push_back(forward[static_cast<std::size_t>(i)]);
    units.push_back(backward[static_cast<std::size_t>(i - start)]);
  }
  units.insert(units.end(), backward.end() - start, backward.end());
  return units;
}

}  // namespace fourfold::train
