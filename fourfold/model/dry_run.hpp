// One training step of a GPT, real or dry, and what it took.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/model/gpt.hpp"
#include "fourfold/schedule/schedule.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::model {

/// What one rank does and holds in a step.
struct StepRecord {
  schedule::Schedule schedule;
  comm::Counts counts;
  tensor::MemoryUse at_peak;  ///< when all tensors together were largest
  tensor::MemoryUse peaks;    ///< of each class by itself
};

/// Builds the model and runs one forward and backward pass with all reductions on this world, whose
/// rank has the tokens and targets of its samples. On a recording world they may be undefined, and
/// nothing is computed: the record is that of a real run, times aside.
StepRecord record_step(comm::World& world, const grid::Grid& grid, const GptSpec& spec,
                       std::int64_t samples, const Tensor& tokens, const Tensor& targets);

/// The same for one rank of a grid of any size, on meta tensors.
StepRecord dry_run(const grid::Grid& grid, int rank, const GptSpec& spec, std::int64_t samples);

}  // namespace fourfold::model
