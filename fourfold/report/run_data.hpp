// What a page tells about a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fourfold/comm/counters.hpp"
#include "fourfold/report/rank_trace.hpp"

namespace fourfold::report {

/// A step, or the mean of several.
struct StepData {
  std::int64_t step = 0;  ///< the last one
  double loss = 0;
  Seconds seconds;
  std::map<std::string, Seconds> exposed;  ///< by axes: compute stood still for them
  std::int64_t count = 1;                  ///< of steps
};

struct RunData {
  std::string name;
  std::string about;                                         ///< model and grid, in one line
  std::vector<std::pair<std::string, std::string>> figures;  ///< what matters most: name and value
  std::vector<std::pair<std::string, std::string>> facts;    ///< date, host, versions and so on
  std::vector<StepData> steps;
  std::vector<std::pair<std::int64_t, double>> validations;  ///< step and loss
  comm::Counts communication;                                ///< of rank 0, in all steps
  std::vector<std::pair<std::string, Bytes>> memory;         ///< what for, and its peak
  std::string configuration;
  std::vector<RankTrace> traces;  ///< by rank; the first step that they have is drawn
};

}  // namespace fourfold::report
