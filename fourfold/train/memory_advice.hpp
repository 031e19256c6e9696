// Suggests what would make a model fit into the available memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/train/fitting_grids.hpp"

namespace fourfold::train {

/// The end of an error message: "; 16 ranks would do; on the same grid train.checkpoint_activations
/// = true needs about 40.1 GiB". It only names settings that are not used yet. Empty if there is
/// nothing to suggest.
std::string memory_advice(const config::Config& config, int ranks, const Choice& choice,
                          Bytes memory);

}  // namespace fourfold::train
