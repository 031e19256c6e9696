// Which grid a configuration is trained on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/config/config.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::train {

/// What a rank sends in a step on this grid. All layers send the same, and so do all passes: a few
/// small dry runs tell what many would send.
double bytes_sent(const Recipe& recipe, const grid::Sizes& sizes);

/// Gives the configuration a grid of `ranks` ranks if it has none: of those of its strategy that
/// the model fits, the one on which a rank sends the fewest bytes a step, found by dry runs. Of
/// grids with a pipeline the one that is most like a cube, and micro-batches if the configuration
/// has none. Throws ConfigError that names grids that work when the one that was given has another
/// number of ranks, or when none fits. Returns a sentence for the user when it chose, else nothing.
std::string settle_grid(config::Config& config, int ranks);

/// Throws the ConfigError that building the model on the grid of the configuration would throw.
void check_fit(const config::Config& config);

}  // namespace fourfold::train
