// Timelines in the format of Chrome's tracing, which Perfetto and chrome://tracing draw.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/report/rank_trace.hpp"

namespace fourfold::report {

/// A process for each rank, a thread for each of its rows, one event a line. Time begins with the
/// first span of any rank.
std::string chrome_trace(const std::vector<RankTrace>& traces);

}  // namespace fourfold::report
