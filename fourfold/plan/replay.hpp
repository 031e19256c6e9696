// Replays the schedule of a training step on a cluster: how long the step takes, and in how much of
// it compute stands still. docs/planning.md describes the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/cluster/cluster.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/report/rank_trace.hpp"
#include "fourfold/schedule/schedule.hpp"

namespace fourfold::plan {

/// A step of the ranks with one index along pipe.
struct PlaceTime {
  Seconds step;     ///< compute and exposed together
  Seconds compute;  ///< includes what communication slows compute down
  Seconds exposed;  ///< compute stands still and waits for an operation
  std::map<std::string, Seconds> exposed_by_axes;  ///< "x", "y+z"
};

struct Replayed {
  Seconds step;                   ///< of the slowest place
  std::vector<PlaceTime> places;  ///< by index along pipe
  /// The step as the first rank of each place sees it, if the caller wants it. Time 0 is the
  /// beginning of the first of them.
  std::vector<report::RankTrace> traces;
  int steps = 0;         ///< that were replayed until the time of a step repeated
  bool periodic = true;  ///< false if it did not repeat, and the last step is reported

  /// The place whose compute takes longest.
  const PlaceTime& busiest() const;
};

struct ReplayOptions {
  bool traces = false;
  /// As if groups that use NICs in turn never had to wait for each other: a lower bound.
  bool never_in_the_way = false;
  int most_steps = 16;  ///< at least 2
};

/// The schedule at index i is that of the ranks whose index along pipe is i; without a pipeline
/// there is one. One schedule alone may also be that of any place of a pipeline, if it has no
/// operations over pipe. All ranks of a place do the same at the same time. Throws InvariantError
/// when the schedules do not belong together, or stand still for ever.
Replayed replay(const std::vector<schedule::Schedule>& places, const grid::Grid& grid,
                const cluster::Cluster& cluster, const ReplayOptions& options = {});

}  // namespace fourfold::plan
