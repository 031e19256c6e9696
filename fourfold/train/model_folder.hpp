// The model of a run, as other programs read it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "fourfold/comm/world.hpp"
#include "fourfold/train/dataset.hpp"

namespace fourfold::train {

/// Writes the weights, and their running mean if there is one. Collective; the first rank writes to
/// the folder.
void save_model(const Mesh& mesh, Trainer& trainer, const std::string& folder);

/// Writes what other programs need besides the weights to use the model.
void save_description(const std::string& folder, const model::Model& model, const Dataset& data);

/// Writes the model of a run's newest good checkpoint, or of that of step `step` if that is not 0,
/// to the folder `out`. On one rank. Throws ConfigError when there is none.
void export_model(comm::World& world, const std::string& run, std::int64_t step,
                  const std::string& out, const std::function<void(const std::string&)>& say);

}  // namespace fourfold::train
