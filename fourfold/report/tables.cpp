// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/tables.hpp"

#include <algorithm>

#include "fourfold/base/text.hpp"
#include "fourfold/report/charts.hpp"
#include "fourfold/report/html.hpp"

namespace fourfold::report {

namespace {

std::string cell(const std::string& text) {
  return concat("<td>", escaped(text), "</td>");
}

Bytes divided(Bytes bytes, std::int64_t by) {
  return Bytes(bytes.value() / by);
}

}  // namespace

std::string communication_table(const RunData& run) {
  const auto steps = std::max<std::int64_t>(1, steps_in(run.steps));
  const double share = 1.0 / static_cast<double>(steps);
  std::vector<std::pair<comm::CounterKey, comm::Count>> sorted(run.communication.begin(),
                                                               run.communication.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.exposed_seconds > b.second.exposed_seconds;
  });
  std::string rows;
  for (const auto& [key, count] : sorted) {
    if (key.group_size == 1) continue;
    rows += concat(
        "<tr>", cell(key.axes), cell(std::string(schedule::to_string(key.op))),
        cell(concat(key.group_size)), cell(number(static_cast<double>(count.calls) * share, 6)),
        cell(concat(divided(count.payload, steps))), cell(concat(divided(count.wire.bytes, steps))),
        cell(concat(count.seconds * share)), cell(concat(count.exposed_seconds * share)),
        "</tr>\n");
  }
  if (rows.empty()) return "<p>No rank had another one to talk to.</p>\n";
  return concat(
      "<div class=\"scroll\"><table id=\"communication\"><thead><tr><th>axes</th><th>operation</th>"
      "<th>ranks</th><th>calls</th><th>tensors</th><th>sent</th><th>time</th><th>exposed</th></tr>"
      "</thead><tbody>\n",
      rows,
      "</tbody></table></div>\n<p>Time runs from the first message of an operation to its end; "
      "while it is exposed, compute stands still for it.</p>\n");
}

std::string memory_table(const RunData& run) {
  std::string rows;
  for (const auto& [name, bytes] : run.memory) {
    rows += concat("<tr>", cell(name), cell(concat(bytes)), "</tr>\n");
  }
  return concat("<table id=\"memory\"><thead><tr><th>for</th><th>peak</th></tr></thead><tbody>\n",
                rows, "</tbody></table>\n");
}

std::string facts_table(const RunData& run) {
  std::string rows;
  for (const auto& [name, value] : run.facts) {
    rows += concat("<tr>", cell(name), cell(value), "</tr>\n");
  }
  return concat("<table id=\"facts\"><tbody>\n", rows, "</tbody></table>\n");
}

}  // namespace fourfold::report
