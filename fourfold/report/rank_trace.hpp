// The traced steps of one rank, and their arrangement in rows.
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
  std::string place;                 ///< the place on the grid: "x=0 y=1"
  std::map<int, std::string> lanes;  ///< the purposes of the lanes that have operations
  std::vector<comm::Timeline::Step> steps;
  std::vector<comm::Span> spans;
};

/// "rank 3 (host n1) x=0 y=1".
std::string title_of(const RankTrace& trace);

/// The layer and the name of a span: "h.3.mlp.c_fc linear dW", "all_gather".
std::string label_of(const comm::Span& span);

/// Spans that do not overlap, in the order of time.
struct Row {
  std::string name;
  std::vector<comm::Span> spans;
};

/// The first row has compute and waits. Then there is a row for each lane, or several rows where
/// operations of a lane run at the same time (sends and receives).
std::vector<Row> rows_of(const RankTrace& trace);

}  // namespace fourfold::report
