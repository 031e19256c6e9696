// What a training step of a GPT or a Llama by SUMMA communicates, written down by hand as in
// docs/summa.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/train/trainer.hpp"

#include "tests/train/operations.hpp"

namespace fourfold::test {

/// Of one step of one rank, without a pipeline.
CallsBy summa_form(const grid::Grid& grid, const train::Recipe& recipe, int rank);

}  // namespace fourfold::test
