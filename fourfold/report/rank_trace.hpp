// The traced steps of one rank, and how they are laid out in rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fourfold/comm/timeline.hpp"

namespace fourfold::report {

/// All times are on the clock of rank 0.
struct RankTrace {
  int rank = 0;
  std::string host;
  std::string place;                 ///< on the grid: "x=0 y=1"
  std::map<int, std::string> lanes;  ///< what those that have operations are for
  std::vector<comm::Timeline::Step> steps;
  std::vector<comm::Span> spans;
};

/// "rank 3 (host n1) x=0 y=1".
std::string title_of(const RankTrace& trace);

/// Of which layer, and what: "h.3.mlp.c_fc linear dW", "all_gather".
std::string label_of(const comm::Span& span);

/// Spans that do not overlap, in the order of time.
struct Row {
  std::string name;
  std::vector<comm::Span> spans;
};

/// The first row has compute and waits, then there is one for each lane; where operations of a lane
/// run at the same time (sends and receives), more than one.
std::vector<Row> rows_of(const RankTrace& trace);

}  // namespace fourfold::report
