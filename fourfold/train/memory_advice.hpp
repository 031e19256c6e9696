// What would make a model fit into the memory that there is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/train/fitting_grids.hpp"

namespace fourfold::train {

/// The end of a refusal: "; 16 ranks would do; on the same grid train.checkpoint_activations = true
/// needs about 40.1 GiB", with what has not been done yet. Empty if nothing is left.
std::string memory_advice(const config::Config& config, int ranks, const Choice& choice,
                          Bytes memory);

}  // namespace fourfold::train
