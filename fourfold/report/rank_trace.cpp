// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/rank_trace.hpp"

#include <algorithm>

#include "fourfold/base/text.hpp"

namespace fourfold::report {

using comm::Span;

namespace {

/// Puts each span into the first row that is free at its beginning.
void add_lane(std::vector<Row>& rows, const std::string& name, const std::vector<Span>& spans) {
  const std::size_t first = rows.size();
  for (const Span& span : spans) {
    std::size_t row = first;
    while (row < rows.size() && rows[row].spans.back().end > span.begin) ++row;
    if (row == rows.size()) {
      rows.push_back({row == first ? name : concat(name, " (", row - first + 1, ")"), {}});
    }
    rows[row].spans.push_back(span);
  }
}

}  // namespace

std::string title_of(const RankTrace& trace) {
  return concat("rank ", trace.rank, " (host ", trace.host, ")", trace.place.empty() ? "" : " ",
                trace.place);
}

std::string label_of(const Span& span) {
  return span.layer.empty() ? span.name : concat(span.layer, " ", span.name);
}

std::vector<Row> rows_of(const RankTrace& trace) {
  std::vector<Span> spans = trace.spans;
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::vector<Row> rows = {{"compute", {}}};
  std::map<int, std::vector<Span>> lanes;
  for (Span& span : spans) {
    const bool operation = span.kind == Span::Kind::kOperation;
    (operation ? lanes[span.lane] : rows[0].spans).push_back(std::move(span));
  }
  for (const auto& [lane, operations] : lanes) {
    const auto name = trace.lanes.find(lane);
    add_lane(rows, name == trace.lanes.end() ? concat("lane ", lane) : name->second, operations);
  }
  return rows;
}

}  // namespace fourfold::report
