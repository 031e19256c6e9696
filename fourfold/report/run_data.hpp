// The data of a page about a run.
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

/// A step, or the mean of several steps.
struct StepData {
  std::int64_t step = 0;  ///< the last of the steps
  double loss = 0;
  Seconds seconds;
  std::map<std::string, Seconds> exposed;  ///< by axes: time in which compute was blocked by them
  std::int64_t count = 1;                  ///< the number of steps
};

/// A picture that the model has drawn.
struct PictureData {
  std::string name;
  std::string png;  ///< the bytes of the file
};

struct RunData {
  std::string name;
  std::string about;                                         ///< model and grid, in one line
  std::vector<std::pair<std::string, std::string>> figures;  ///< the main results: name and value
  std::vector<std::pair<std::string, std::string>> facts;    ///< date, host, versions and so on
  std::vector<StepData> steps;
  std::vector<std::pair<std::int64_t, double>> validations;  ///< step and loss
  comm::Counts communication;                                ///< of rank 0, in all steps
  std::vector<std::pair<std::string, Bytes>> memory;         ///< purpose and peak
  std::vector<PictureData> pictures;                         ///< the latest first; may be empty
  std::string configuration;
  std::vector<RankTrace> traces;  ///< by rank; their first step is drawn
  /// A step as it was predicted, one trace for each place of the pipeline; may be empty.
  std::vector<RankTrace> predicted;
  std::string predicted_part;  ///< of the step that these show; empty: all of it
};

}  // namespace fourfold::report
