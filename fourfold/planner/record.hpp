// Dry runs of a step, or of a part of it that stands for the whole.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fourfold/planner/candidate.hpp"
#include "fourfold/train/dry_run.hpp"

namespace fourfold::planner {

/// What a rank of each place of the pipeline does in a step, and what it holds.
struct Recorded {
  std::vector<schedule::Schedule> places;  ///< by index along pipe
  Bytes memory;                            ///< of the rank that needs the most
  tensor::MemoryUse by_class;              ///< of that rank, at its peak
};

/// A part of a step that is as exact as the whole one: fewer blocks, passes and places. Times and
/// memory are linear in each of these numbers beyond a few.
struct Reduced {
  std::int64_t blocks = 0;  ///< of the smallest stage; all others are shortened by as many as it
  std::int64_t passes = 0;
  int places = 1;
};

/// What dry runs of the same configuration share (train::Recipe); may be null.
using SharedNames = std::shared_ptr<train::GatherNames>;

/// The places of the pipeline, or only the first ones. `known` has those that are recorded already.
Recorded record(const config::Config& config, const Candidate& candidate, const Reduced& size,
                int first_places = 0, Recorded known = {}, const SharedNames& names = {});

/// The size at which `record` records the whole step of the candidate, whose recipe this is.
Reduced whole_step(const train::Recipe& recipe, const Candidate& candidate);

/// The number of blocks of each stage.
using Blocks = std::vector<std::int64_t>;

/// The blocks of the stages of the candidate, and of a pipeline of fewer places that stands for it:
/// its last place is like the last one, and the others like the fullest of the others.
Blocks stages_of(const model::Model& model, const Candidate& candidate, int places);

/// All stages have fewer blocks, so that the smallest one has `smallest`.
Blocks shortened(Blocks blocks, std::int64_t smallest);

}  // namespace fourfold::planner
