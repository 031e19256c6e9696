// What the planner predicts for a configuration whose grid and settings are chosen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/planner/evaluate.hpp"
#include "fourfold/train/run.hpp"

namespace fourfold::planner {

/// The choices of a configuration that has a grid.
Candidate candidate_of(const config::Config& config);

/// A predicted step of the candidate for a picture: the whole step, or if that would be very long a
/// part of it.
Evaluation::Traced timeline_of(const config::Config& config, const Candidate& candidate,
                               const cluster::Cluster& cluster);

/// "2 blocks a stage, 3 passes and 1 place of the pipeline"; empty if it is the whole step.
std::string part_of(const Evaluation::Traced& traced);

/// The step of a configuration that has a grid, on a cluster.
train::Prediction prediction_of(const config::Config& config, const cluster::Cluster& cluster);

/// The same on the ranks of this world, if they were calibrated before (calibration_cache.hpp);
/// otherwise only the memory is predicted, and `missing` says how to predict the time. Nothing is
/// measured, and nothing is predicted of a model that does not fit the grid. Collective; only the
/// first rank gets a prediction.
train::Prediction predict(comm::World& world, const config::Config& config);

}  // namespace fourfold::planner
