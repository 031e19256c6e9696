// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "fourfold/base/text.hpp"
#include "fourfold/planner/page_parts.hpp"
#include "fourfold/planner/plan_text.hpp"
#include "fourfold/planner/predict.hpp"
#include "fourfold/report/charts.hpp"
#include "fourfold/report/html.hpp"
#include "fourfold/report/plot.hpp"

namespace fourfold::planner {

using report::escaped;
using report::Palette;
using report::px;

namespace {

constexpr double kRow = 26;
constexpr double kLabel = 300;
constexpr double kWidth = 1100;
constexpr double kEnd = 90;  // for the number behind a bar

/// A piece of a bar: its colour, its size and what it is.
struct Piece {
  std::string colour;
  double size = 0;
  std::string what;
};

struct Bar {
  std::string label;
  std::vector<Piece> pieces;
  std::string total;
};

/// Bars from left to right, one below the other, on one scale up to `largest`.
std::string bars(const std::string& id, const std::string& about, const std::vector<Bar>& all,
                 double largest, double mark) {
  const double height = kRow * static_cast<double>(all.size()) + 8;
  const auto x = [&](double value) { return kLabel + value / largest * (kWidth - kLabel - kEnd); };
  std::string svg = report::open_svg(kWidth, height, id, about);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double top = 4 + kRow * static_cast<double>(i);
    svg += concat("<text class=\"label end\" x=\"", px(kLabel - 8), "\" y=\"", px(top + 16), "\">",
                  escaped(all[i].label), "</text>\n");
    double reached = 0;
    for (const Piece& piece : all[i].pieces) {
      const double next = reached + std::max(0.0, piece.size);
      svg += concat("<rect class=\"", piece.colour, "\" x=\"", px(x(reached)), "\" y=\"",
                    px(top + 3), "\" width=\"", px(x(next) - x(reached)), "\" height=\"",
                    px(kRow - 8), "\"><title>", escaped(piece.what), "</title></rect>");
      reached = next;
    }
    svg += concat("<text class=\"label\" x=\"", px(x(reached) + 6), "\" y=\"", px(top + 16), "\">",
                  escaped(all[i].total), "</text>\n");
  }
  if (mark > 0) {
    svg += concat("<line class=\"axis\" x1=\"", px(x(mark)), "\" x2=\"", px(x(mark)),
                  "\" y1=\"0\" y2=\"", px(height), "\"/>\n");
  }
  return concat("<div class=\"scroll\">", svg, "</svg></div>\n");
}

/// Of the place in the ranking, or of a name, with the grid: the table has the rest.
std::string label_of(const Predicted& plan, const std::string& name) {
  return concat(name, " ", plan.candidate.sizes);
}

Bar time_bar(const Predicted& plan, const std::string& name, const Palette& palette) {
  Bar bar{label_of(plan, name), {}, to_string(plan.step)};
  double left = plan.step.value();
  bar.pieces.push_back({"compute", plan.compute.value(), concat("compute ", plan.compute)});
  left -= plan.compute.value();
  for (const std::string& axes : palette.axes()) {
    const auto found = plan.exposed_by_axes.find(axes);
    if (found == plan.exposed_by_axes.end()) continue;
    const double size = std::min(left, found->second.value());
    bar.pieces.push_back(
        {palette.of_axes(axes), size, concat("waiting for ", axes, " ", found->second)});
    left -= size;
  }
  if (left > 0) bar.pieces.push_back({"other", left, concat("idle ", Seconds(left))});
  return bar;
}

Bar memory_bar(const Predicted& plan, const std::string& name) {
  Bar bar{label_of(plan, name), {}, to_string(plan.memory)};
  for (std::size_t i = 0; i < tensor::kPlannedClasses; ++i) {
    const auto kind = static_cast<tensor::MemoryClass>(i);
    bar.pieces.push_back({concat("a", i), static_cast<double>(plan.by_class[kind].value()),
                          concat(to_string(kind), " ", plan.by_class[kind])});
  }
  return bar;
}

/// The place of a plan and its strategy.
std::string numbered(std::size_t place, const Predicted& plan) {
  return concat(place + 1, ". ", plan.candidate.strategy);
}

double longest_of(const std::vector<Bar>& all) {
  double longest = 0;
  for (const Bar& bar : all) {
    double sum = 0;
    for (const Piece& piece : bar.pieces) sum += std::max(0.0, piece.size);
    longest = std::max(longest, sum);
  }
  return longest;
}

/// Of the colours that can be seen.
std::string legend_of_times(const Palette& palette, const std::vector<Bar>& all) {
  constexpr double kVisible = 2e-3;
  std::set<std::string> seen;
  for (const Bar& bar : all) {
    for (const Piece& piece : bar.pieces) {
      if (piece.size >= kVisible * longest_of(all)) seen.insert(piece.colour);
    }
  }
  std::vector<report::LegendEntry> entries = {{"compute", "compute"}};
  for (const std::string& axes : palette.axes()) {
    entries.push_back({palette.of_axes(axes), "waiting for " + axes});
  }
  entries.push_back({"other", "idle"});
  std::erase_if(entries, [&](const auto& entry) { return !seen.contains(entry.colour); });
  return report::legend(entries);
}

std::string ranking(const Answer& answer, const Palette& palette) {
  std::vector<Bar> all;
  for (std::size_t i = 0; i < answer.found.plans.size(); ++i) {
    const Predicted& plan = answer.found.plans[i];
    all.push_back(time_bar(plan, numbered(i, plan), palette));
  }
  if (answer.explained) all.push_back(time_bar(*answer.explained, "to explain", palette));
  std::string text = concat("<p>", escaped(comparison(answer)), "</p>\n");
  if (answer.question.tokens > 0) text += concat("<p>", escaped(training_time(answer)), "</p>\n");
  return section(
      "The best plans",
      concat(bars("ranking", "predicted step times", all, longest_of(all), 0),
             legend_of_times(palette, all), text, table_of("plans", ranking_rows(answer))));
}

std::string strategies(const Answer& answer, const Palette& palette) {
  if (answer.by_name.empty()) return {};
  std::vector<Bar> all;
  for (const Answer::ByName& one : answer.by_name) {
    if (one.plan) all.push_back(time_bar(*one.plan, one.strategy, palette));
  }
  std::string html;
  if (!all.empty()) {
    html = bars("strategies", "predicted step times of strategies", all, longest_of(all), 0) +
           legend_of_times(palette, all);
  }
  return section("The best of each strategy", html + table_of("by-name", strategy_rows(answer)));
}

std::string memory(const Answer& answer) {
  std::vector<Bar> all;
  for (std::size_t i = 0; i < answer.found.plans.size(); ++i) {
    const Predicted& plan = answer.found.plans[i];
    all.push_back(memory_bar(plan, numbered(i, plan)));
  }
  if (answer.explained) all.push_back(memory_bar(*answer.explained, "to explain"));
  const auto limit = static_cast<double>(answer.question.search.memory.value());
  // A limit that is far away would leave no room for the bars.
  constexpr double kFar = 4;
  const double longest = longest_of(all);
  const bool near = limit <= kFar * longest;
  std::vector<report::LegendEntry> entries;
  for (std::size_t i = 0; i < tensor::kPlannedClasses; ++i) {
    entries.push_back(
        {concat("a", i), std::string(to_string(static_cast<tensor::MemoryClass>(i)))});
  }
  return section(
      "Memory of the fullest rank",
      concat(bars("memory-of-plans", "memory of the plans", all,
                  near ? std::max(limit, longest) : longest, near ? limit : 0),
             report::legend(entries), "<p>A rank has room for ", answer.question.search.memory,
             " of tensors", near ? ": the line." : ", which is far to the right of this picture.",
             "</p>\n"));
}

std::string rejected(const Answer& answer) {
  const Rows rows = rejected_rows(answer);
  return section("What was rejected", concat("<p>", escaped(searched(answer)), "</p>\n",
                                             rows.rows.empty() ? "" : table_of("rejected", rows)));
}

std::string explanation(const Answer& answer) {
  if (!answer.explained) return {};
  return section(concat("The grid ", answer.explained->candidate.sizes),
                 concat("<pre>", escaped(explain(answer, *answer.explained)), "</pre>\n"));
}

std::string timeline(const report::RunData& run, const Palette& palette) {
  return section("The best plan, as predicted", report::timeline_chart(run, palette));
}

/// The step of the best plan, as the charts of runs take it.
report::RunData predicted_step(const Answer& answer) {
  const Candidate& best = answer.found.plans.front().candidate;
  Evaluation::Traced traced = timeline_of(answer.question.config, best, answer.question.cluster);
  report::RunData run;
  run.predicted_part = part_of(traced);
  run.predicted = std::move(traced.traces);
  return run;
}

/// One colour for each set of axes that any chart of the page shows.
Palette palette_of(const Answer& answer, const report::RunData& step) {
  std::set<std::string> axes;
  const auto add = [&](const Predicted& plan) {
    for (const auto& [name, time] : plan.exposed_by_axes) axes.insert(name);
  };
  for (const Predicted& plan : answer.found.plans) add(plan);
  for (const Answer::ByName& one : answer.by_name) {
    if (one.plan) add(*one.plan);
  }
  if (answer.explained) add(*answer.explained);
  for (const report::RankTrace& trace : step.predicted) {
    for (const comm::Span& span : trace.spans) {
      if (!span.axes.empty()) axes.insert(span.axes);
    }
  }
  return Palette(axes);
}

std::string figures(const Answer& answer) {
  const Predicted& best = answer.found.plans.front();
  const Figures figures = answer.figures_of(best);
  std::vector<std::pair<std::string, std::string>> all = {
      {"best grid", grid::to_string(best.candidate.sizes)},
      {"step", to_string(best.step)},
      {"mfu", report::number(100 * figures.mfu, 3) + "%"},
      {answer.unit() + " a second", report::number(figures.units_a_second, 4)},
      {"memory of a rank", to_string(best.memory)}};
  if (answer.question.tokens > 0) all.emplace_back("days", report::number(figures.days, 3));
  std::string html = "<dl class=\"figures\">";
  for (const auto& [name, value] : all) {
    html += concat("<div><dt>", escaped(name), "</dt><dd>", escaped(value), "</dd></div>");
  }
  return html + "</dl>\n";
}

}  // namespace

std::string to_page(const Answer& answer) {
  const report::RunData step = predicted_step(answer);
  const Palette palette = palette_of(answer, step);
  const std::string title =
      concat(answer.question.ranks, " GPUs of ", answer.question.cluster.name);
  const std::string content =
      concat(figures(answer), ranking(answer, palette), strategies(answer, palette),
             explanation(answer), memory(answer), timeline(step, palette), rejected(answer));
  return document(title, headline(answer), content, "fourfold plan --html");
}

}  // namespace fourfold::planner
