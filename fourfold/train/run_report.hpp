// Converts a finished run to the data of its page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/config/config.hpp"
#include "fourfold/report/run_data.hpp"
#include "fourfold/train/metrics.hpp"

namespace fourfold::train {

report::RunData report_of(const std::string& name, const config::Config& config,
                          const RunMetrics& run, std::vector<report::RankTrace> traces);

}  // namespace fourfold::train
