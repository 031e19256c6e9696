// A small training that tests of training share: ranks as threads follow one rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/comm/world.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::test {

/// Sizes that do not divide, dropout, decay, clipping that is at work, two passes a step.
train::Recipe small_recipe(bool tied, std::int64_t steps);

/// A text with something to learn.
void read_sample(std::int64_t sample, std::int64_t* tokens, std::int64_t* targets);

/// All steps of the recipe's schedule, with its overlaps.
std::vector<train::StepResult> train_on(comm::World& world, const grid::Grid& grid,
                                        const train::Recipe& recipe);
std::vector<train::StepResult> train_alone(const train::Recipe& recipe);

/// The largest relative difference of losses, norms and rates; infinite if one is not finite or the
/// numbers of steps differ.
double difference(const std::vector<train::StepResult>& a, const std::vector<train::StepResult>& b);

}  // namespace fourfold::test
