// Chooses the grid that a configuration is trained on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/config/config.hpp"
#include "fourfold/train/rank_memory.hpp"

namespace fourfold::train {

/// Gives the configuration a grid of `ranks` ranks if it has none. The candidates are the grids of
/// its strategy that the model fits and on which the tensors of a rank fit into `memory`. The one
/// on which a rank sends the fewest bytes in a step is chosen, by dry runs. Of grids with a
/// pipeline the one that is most like a cube is chosen, and micro-batches if the configuration has
/// none.
///
/// Throws ConfigError that names grids that work when the given grid has another number of ranks,
/// or when no grid fits. Throws ConfigError that says what is missing and what would help when no
/// grid has enough memory, and when the given grid needs more than a limit. Returns a sentence for
/// the user when a grid was chosen, or when the given grid needs more memory than there is, else an
/// empty text.
std::string settle_grid(config::Config& config, int ranks, const RankMemory& memory);

/// Throws the ConfigError that building the model on the grid of the configuration would throw.
void check_fit(const config::Config& config);

}  // namespace fourfold::train
