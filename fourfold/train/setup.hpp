// From a configuration to what is trained.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/config/config.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::train {

/// The vocabulary must be known by now.
Recipe recipe_of(const config::Config& config);

/// "overlaps: all; each rank's samples go in two halves": for people.
std::string describe(const tensor::Overlap& overlap, int parts);

}  // namespace fourfold::train
