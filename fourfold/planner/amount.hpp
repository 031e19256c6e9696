// How much of a model a rank has, for the bounds of its time and memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/config/config.hpp"
#include "fourfold/planner/candidate.hpp"
#include "fourfold/planner/profile.hpp"
#include "fourfold/planner/workload.hpp"

namespace fourfold::planner {

/// The passes of a rank, and the blocks of the places of the pipeline.
struct Amount {
  Amount(const Workload& load, const config::Config& config, const Candidate& candidate);

  /// The most and the fewest of a place.
  double blocks() const;
  double fewest() const;

  double passes;
  std::vector<double> places;           ///< blocks of all stages of a place
  std::vector<double> first_chunks;     ///< blocks of its first stage
  std::vector<double> chunks_of_first;  ///< blocks of each stage of the first place
};

/// The samples of a rank in a pass of the candidate, relative to those of the profile.
double part_of(const Profile& profile, const Candidate& candidate);

}  // namespace fourfold::planner
