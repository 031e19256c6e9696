// The order in which a rank of a pipeline runs its forward and backward passes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace fourfold::train {

/// One pass of one micro-batch through one of a rank's chunks of the model.
struct Unit {
  bool forward = true;
  int chunk = 0;
  std::int64_t micro_batch = 0;

  bool operator==(const Unit&) const = default;
};

/// One forward, one backward (1F1B) for the rank at `place` of `places`. The rank first runs as
/// many forward passes as needed until the first gradient comes back. Then forward and backward
/// passes alternate, so that no rank holds more than `places` passes under way. With several chunks
/// on a rank the model goes around the ranks several times (interleaved 1F1B), which divides the
/// idle time at both ends by the number of chunks. The number of micro-batches must then be a
/// multiple of the places; otherwise this throws InvariantError.
std::vector<Unit> pipeline_units(int places, int place, int chunks, std::int64_t micro_batches);

/// Only the forward passes, in the order of pipeline_units, for any number of micro-batches.
std::vector<Unit> forward_units(int places, int chunks, std::int64_t micro_batches);

}  // namespace fourfold::train
