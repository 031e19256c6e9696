// What a training step of a GPT or a Llama communicates, written down by hand as in
// docs/communication.md and docs/summa.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/train/trainer.hpp"

#include "tests/train/operations.hpp"

namespace fourfold::test {

/// Of one step of one rank: forward, backward, optimizer. Gathered weights are kept either not at
/// all (`overlap.keep_weights` off, and with a pipeline `halves` too) or all of them.
CallsBy closed_form(const grid::Grid& grid, const train::Recipe& recipe, int rank);

}  // namespace fourfold::test
