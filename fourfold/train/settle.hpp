// Which grid a configuration is trained on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/config/config.hpp"
#include "fourfold/train/rank_memory.hpp"

namespace fourfold::train {

/// Gives the configuration a grid of `ranks` ranks if it has none: of those of its strategy that
/// the model fits and on which a rank's tensors fit into `memory`, the one on which a rank sends
/// the fewest bytes a step, found by dry runs. Of grids with a pipeline the one that is most like a
/// cube, and micro-batches if the configuration has none. Throws ConfigError that names grids that
/// work when the one that was given has another number of ranks, or when none fits; that says what
/// is missing and what would help when none has room; and when the one that was given needs more
/// than a limit. Returns a sentence for the user when it chose, or when the one that was given
/// needs more than there is, else nothing.
std::string settle_grid(config::Config& config, int ranks, const RankMemory& memory);

/// Throws the ConfigError that building the model on the grid of the configuration would throw.
void check_fit(const config::Config& config);

}  // namespace fourfold::train
