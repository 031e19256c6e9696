// Converts a configuration to a recipe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/config/config.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::train {

/// The vocabulary of the configuration must be known.
Recipe recipe_of(const config::Config& config);

/// A description for people: "overlaps: all; each rank's samples go in two halves".
std::string describe(const tensor::Overlap& overlap, int parts);

}  // namespace fourfold::train
