// A small training that tests of training share: ranks as threads follow one rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/comm/world.hpp"

#include "tests/train/gpt_recipe.hpp"

namespace fourfold::test {

/// Sizes that do not divide, dropout, decay, clipping that is at work, two passes a step.
GptRecipe small_recipe(bool tied, std::int64_t steps);

/// A text with something to learn.
void read_sample(std::int64_t sample, std::int64_t* tokens, std::int64_t* targets);
/// The same as a trainer reads it.
const train::ReadSample& small_samples();

/// All steps of the recipe, with its overlaps.
std::vector<train::StepResult> train_on(comm::World& world, const grid::Grid& grid,
                                        const train::Recipe& recipe);
std::vector<train::StepResult> train_alone(const train::Recipe& recipe);

/// The largest relative difference of losses, norms and rates; infinite if one is not finite or the
/// numbers of steps differ.
double difference(const std::vector<train::StepResult>& a, const std::vector<train::StepResult>& b);

/// How training in bf16 is too far from that in float64; empty if it is not. In the first step the
/// weights are the same. Later they drift apart, since Adam's first steps are as long for a small
/// gradient as for a large one: that shows in the norms first, and hardly in the losses.
std::string too_far_from_float64(const std::vector<train::StepResult>& rough,
                                 const std::vector<train::StepResult>& exact);

}  // namespace fourfold::test
