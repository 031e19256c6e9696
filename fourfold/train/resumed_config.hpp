// What a run that goes on takes from the configuration that it has had so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/config/config.hpp"

namespace fourfold::train {

/// Lets another grid be chosen if the configuration's has another number of ranks.
void forget_other_grid(config::Config& config, int ranks);

/// Gives a configuration without a grid that of the run so far, `own`, with all that was chosen
/// with it, so that sums are rounded in the same way. Not if there is another number of ranks now,
/// or if the configuration says something else of what was chosen.
void take_own_grid(config::Config& config, const config::Config& own, int ranks);

/// The configuration for opening the data of a run that goes on from a checkpoint in the folder
/// `run`, or, if that is empty, of another run. A checkpoint replaces the weights of
/// `train.init_from`, so that folder may be gone: its tokenizer is in the run's folder, too.
config::Config config_for_data(const config::Config& config, const std::string& run);

}  // namespace fourfold::train
