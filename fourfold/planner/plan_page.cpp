// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "fourfold/base/text.hpp"
#include "fourfold/planner/plan_text.hpp"
#include "fourfold/report/charts.hpp"
#include "fourfold/report/html.hpp"
#include "fourfold/report/plot.hpp"
#include "fourfold/report/style.hpp"

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

std::string label_of(const Answer& answer, const Predicted& plan, const std::string& name) {
  const std::string settings = settings_of(plan.candidate, answer.question.config.train.batch);
  std::string text =
      concat(name, " ", plan.candidate.sizes, settings.empty() ? "" : ", ", settings);
  constexpr std::size_t kLongest = 46;
  if (text.size() > kLongest) {
    text.resize(kLongest - 3);
    text += "...";
  }
  return text;
}

Bar time_bar(const Answer& answer, const Predicted& plan, const std::string& name,
             const Palette& palette) {
  Bar bar{label_of(answer, plan, name), {}, to_string(plan.step)};
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

Bar memory_bar(const Answer& answer, const Predicted& plan) {
  Bar bar{label_of(answer, plan, plan.candidate.strategy), {}, to_string(plan.memory)};
  for (std::size_t i = 0; i < tensor::kPlannedClasses; ++i) {
    const auto kind = static_cast<tensor::MemoryClass>(i);
    bar.pieces.push_back({concat("a", i), static_cast<double>(plan.by_class[kind].value()),
                          concat(to_string(kind), " ", plan.by_class[kind])});
  }
  return bar;
}

std::string section(const std::string& title, const std::string& content) {
  return concat("<section><h2>", escaped(title), "</h2>\n", content, "</section>\n");
}

std::string ranking(const Answer& answer, const Palette& palette) {
  std::vector<Bar> all;
  double longest = 0;
  const auto add = [&](const Predicted& plan, const std::string& name) {
    all.push_back(time_bar(answer, plan, name, palette));
    longest = std::max(longest, plan.step.value());
  };
  for (const Predicted& plan : answer.found.plans) add(plan, plan.candidate.strategy);
  std::string html = bars("ranking", "predicted step times", all, longest, 0);
  std::vector<report::LegendEntry> entries = {{"compute", "compute"}};
  for (const std::string& axes : palette.axes()) {
    entries.push_back({palette.of_axes(axes), "waiting for " + axes});
  }
  entries.push_back({"other", "idle"});
  html = section("The best plans", html + report::legend(entries));
  if (answer.by_name.empty()) return html;
  all.clear();
  longest = 0;
  for (const Answer::ByName& one : answer.by_name) {
    if (one.plan) add(*one.plan, one.strategy);
  }
  return html + section("The best of each strategy",
                        bars("strategies", "predicted step times", all, longest, 0));
}

std::string memory(const Answer& answer) {
  std::vector<Bar> all;
  const auto limit = static_cast<double>(answer.question.search.memory.value());
  double largest = limit;
  for (const Predicted& plan : answer.found.plans) {
    all.push_back(memory_bar(answer, plan));
    largest = std::max(largest, static_cast<double>(plan.memory.value()));
  }
  std::vector<report::LegendEntry> entries;
  for (std::size_t i = 0; i < tensor::kPlannedClasses; ++i) {
    entries.push_back(
        {concat("a", i), std::string(to_string(static_cast<tensor::MemoryClass>(i)))});
  }
  return section(
      "Memory of the fullest rank",
      bars("memory", "memory of the plans", all, largest, limit) + report::legend(entries) +
          concat("<p>The line is what a rank has: ", answer.question.search.memory, ".</p>\n"));
}

std::string timeline(const Answer& answer) {
  const Predicted& best = answer.found.plans.front();
  const Evaluation evaluation(answer.question.config, best.candidate);
  Evaluation::Traced traced = evaluation.trace(best.candidate.placement, answer.question.cluster);
  report::RunData run;
  run.traces = std::move(traced.traces);
  std::set<std::string> axes;
  for (const report::RankTrace& trace : run.traces) {
    for (const comm::Span& span : trace.spans) {
      if (!span.axes.empty()) axes.insert(span.axes);
    }
  }
  std::string html;
  if (!traced.whole) {
    html = concat("<p>A part of the step: ", traced.size.blocks, " blocks a stage, ",
                  traced.size.passes, " passes and ", traced.size.places,
                  traced.size.places == 1 ? " place" : " places", " of the pipeline.</p>\n");
  }
  return section("The best plan, as predicted", html + report::timeline_chart(run, Palette(axes)));
}

std::string figures(const Answer& answer) {
  const Predicted& best = answer.found.plans.front();
  const Figures figures = answer.figures_of(best);
  std::vector<std::pair<std::string, std::string>> all = {
      {"best grid", grid::to_string(best.candidate.sizes)},
      {"step", to_string(best.step)},
      {"mfu", report::number(100 * figures.mfu, 3) + "%"},
      {"tokens a second", report::number(figures.terms_a_second, 4)},
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
  std::set<std::string> axes;
  for (const Predicted& plan : answer.found.plans) {
    for (const auto& [name, time] : plan.exposed_by_axes) axes.insert(name);
  }
  for (const Answer::ByName& one : answer.by_name) {
    if (!one.plan) continue;
    for (const auto& [name, time] : one.plan->exposed_by_axes) axes.insert(name);
  }
  const Palette palette(axes);
  const std::string title =
      concat(answer.question.ranks, " GPUs of ", answer.question.cluster.name);
  std::string html = concat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<link rel=\"icon\" href=\"data:,\"><title>",
      escaped(title), ": Fourfold</title><style>", report::style(),
      "</style></head>\n<body><main>\n<h1>", escaped(title), "</h1>\n<p>",
      escaped(answer.question.cluster.about), "</p>\n", figures(answer));
  html += ranking(answer, palette);
  html += memory(answer);
  html += timeline(answer);
  html += section("As text", concat("<pre>", escaped(to_text(answer)), "</pre>\n"));
  return html + "<footer>Made by fourfold plan --html</footer>\n</main></body></html>\n";
}

}  // namespace fourfold::planner
