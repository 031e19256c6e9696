// The kinds of models, by the name in the configuration.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/config/config.hpp"
#include "fourfold/model/model.hpp"

namespace fourfold::model {

/// The model that a configuration describes. The vocabulary of a model of tokens must be known.
ModelPtr model_of(const config::Config& config);

}  // namespace fourfold::model
