// Training of a GPT on one process with libtorch's own modules, optimizer and clipping: what ours
// must agree with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/train/trainer.hpp"

#include "tests/train/gpt_recipe.hpp"

namespace fourfold::test {

/// The results of steps 1 to `steps`, from the same initial weights and with the same dropout.
std::vector<train::StepResult> train_reference(const GptRecipe& recipe, std::int64_t steps,
                                               const train::ReadTokens& read);

}  // namespace fourfold::test
