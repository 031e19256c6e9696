// The grids that a model can be trained on, without regard to memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fourfold/config/config.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::train {

/// One way to train a configuration.
struct Choice {
  grid::Sizes sizes;
  std::int64_t micro_batch = 0;
};

/// The choice of these sizes, with micro-batches for a pipeline if the configuration has none.
Choice choice_of(const config::Config& config, const grid::Sizes& sizes);

/// The recipe that is trained with this choice.
Recipe recipe_of(const config::Config& config, const Choice& choice);

/// Why the model does not fit. Empty if it fits.
std::string misfit(const config::Config& config, const Choice& choice);

/// Some of the grids that may be given for the strategy and that the model fits, as text for the
/// user. Grids with a pipeline are named only if the strategy has one.
std::string grids_that_work(const config::Config& config, int ranks);

/// The grids that the strategy chooses by itself and that the model fits. Throws ConfigError that
/// says why there is none.
std::vector<Choice> fitting_choices(const config::Config& config, int ranks);

}  // namespace fourfold::train
