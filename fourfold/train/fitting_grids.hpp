// The grids that a model can be trained on, memory aside.
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

/// With micro-batches for a pipeline, if the configuration has none.
Choice choice_of(const config::Config& config, const grid::Sizes& sizes);

/// What is trained when it is chosen.
Recipe recipe_of(const config::Config& config, const Choice& choice);

/// Why the model does not fit; empty if it does.
std::string misfit(const config::Config& config, const Choice& choice);

/// Some of the grids that the strategy can be given and that the model fits, for the user; with a
/// pipeline only where that belongs to it.
std::string grids_that_work(const config::Config& config, int ranks);

/// Those that the strategy takes by itself and that the model fits. Throws ConfigError that says
/// why there is none.
std::vector<Choice> fitting_choices(const config::Config& config, int ranks);

}  // namespace fourfold::train
