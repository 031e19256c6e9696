// Reads the plans that `fourfold plan --json` wrote, so that they can be measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/planner/candidate.hpp"

namespace fourfold::planner {

struct ReadPlan {
  Candidate candidate;
  Seconds step;  ///< as predicted
  Bytes memory;  ///< of a rank, as predicted
};

/// The list `plans` of the text, in its order. Throws ConfigError that names the file and what is
/// wrong in it.
std::vector<ReadPlan> parse_plans(const std::string& text, const std::string& file);

/// The same of a file.
std::vector<ReadPlan> read_plans(const std::string& file);

}  // namespace fourfold::planner
