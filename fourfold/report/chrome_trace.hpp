// Timelines in the format of Chrome's tracing, for Perfetto and chrome://tracing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/report/rank_trace.hpp"

namespace fourfold::report {

/// There is a process for each rank, a thread for each of its rows, and one event on each line.
/// Time begins with the first span of any rank.
std::string chrome_trace(const std::vector<RankTrace>& traces);

}  // namespace fourfold::report
