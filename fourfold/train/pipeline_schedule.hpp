// In which order a rank of a pipeline runs its forward and backward passes.
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

/// One forward, one backward (1F1B) for the rank at `place` of `places`: after as many forward
/// passes as it takes until the first gradient comes back, they alternate, so that no rank holds
/// more than `places` passes under way. With several chunks a rank the model goes around the ranks
/// several times (interleaved 1F1B), which makes the idle time at both ends as many times smaller;
/// the micro-batches must then be a multiple of the places: InvariantError.
std::vector<Unit> pipeline_units(int places, int place, int chunks, std::int64_t micro_batches);

/// The forward passes alone, in the order of pipeline_units, for any number of micro-batches.
std::vector<Unit> forward_units(int places, int chunks, std::int64_t micro_batches);

}  // namespace fourfold::train
