// The grids that a model fits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fourfold/model/model.hpp"

namespace fourfold::model {

grid::Sizes sizes_of(const Mesh& mesh);

/// The grids of `ranks` ranks over x, y, z and data that the model fits.
std::vector<grid::Sizes> fitting_grids(const Model& model, int ranks, std::int64_t samples);

/// The grids among `candidates` that work, as text for a message: "x=2,data=4 or ...", or what to
/// change when there is none.
std::string grids_that_work(const std::vector<grid::Sizes>& candidates,
                            const std::function<bool(const grid::Sizes&)>& works);

/// Throws ConfigError that says which grids would work, unless the model fits the mesh.
void check_fits(const Model& model, const Mesh& mesh, std::int64_t samples);

}  // namespace fourfold::model
