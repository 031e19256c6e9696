// How long the passes of a pipeline take, from the times of single passes: an approximation that is
// quick for any number of places and passes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace fourfold::planner {

/// The seconds of a micro-batch at a place.
struct UnitTime {
  double forward = 0;   ///< through one of its chunks
  double backward = 0;  ///< the same
  /// Of a result between this place and the next one, in either direction. The last place is
  /// followed by the first.
  double send = 0;
};

/// Runs the units of all places in their order (train::pipeline_units). A result is sent while the
/// sender goes on. The receiver takes it as soon as it has begun the unit before the one that needs
/// it, and results between two places are sent one after the other.
double pipeline_time(const std::vector<UnitTime>& places, int chunks, std::int64_t passes);

}  // namespace fourfold::planner
