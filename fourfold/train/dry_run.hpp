// One training step of a model, real or dry, and what it needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "fourfold/schedule/schedule.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::train {

/// What one rank does and holds in a step of the steady state, in which each step is like the one
/// before: the schedule is periodic (schedule::check_periodic).
struct StepRecord {
  schedule::Schedule schedule;
  comm::Counts counts;
  tensor::MemoryUse construction;  ///< the peak of all tensors together before the step
  tensor::MemoryUse at_peak;       ///< the same in the step
  tensor::MemoryUse peaks;         ///< in the step, the peak of each class by itself

  Bytes peak() const { return std::max(construction.total(), at_peak.total()); }
};

/// Builds the model and its optimizer and runs two steps on this world; the record is that of the
/// second. On a recording world nothing is read or computed, and the record is that of a real run,
/// except for times. There the values that a step before would have left under way are sent first,
/// and the second step is left out where it cannot differ from the first.
StepRecord record_step(comm::World& world, const grid::Grid& grid, const Recipe& recipe,
                       const ReadSample& read);

/// A rank at a place of the pipeline that sends and holds as much as any of them. The blocks of an
/// image model swap channels between x and y: ranks with the same index along both keep theirs.
int typical_rank(const grid::Grid& grid, int place, const model::Model& model);

/// The same for one rank of a grid of any size, on meta tensors. Ranks are placed on hosts in
/// order, `ranks_per_host` on each; 0 means all on one host.
StepRecord dry_run(const grid::Grid& grid, int rank, const Recipe& recipe, int ranks_per_host = 0);

}  // namespace fourfold::train
