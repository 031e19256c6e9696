// What a training step of a U-Net communicates, written down by hand (docs/communication.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/train/trainer.hpp"

#include "tests/train/operations.hpp"

namespace fourfold::test {

/// Of one step of one rank: forward, backward, optimizer. Gathered weights are kept either not at
/// all (`overlap.keep_weights` and `halves` off) or all of them.
CallsBy unet_form(const grid::Grid& grid, const train::Recipe& recipe, int rank);

}  // namespace fourfold::test
