// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fourfold/base/text.hpp"
#include "fourfold/report/charts.hpp"
#include "fourfold/report/html.hpp"
#include "fourfold/report/plot.hpp"

namespace fourfold::report {

namespace {

constexpr std::size_t kMostBars = 120;

/// The mean of some steps.
struct Bar {
  std::int64_t first = 0;
  std::int64_t last = 0;
  Seconds seconds{};
  Seconds compute{};
  std::map<std::string, Seconds> exposed{};
};

Bar mean_of(const std::vector<StepData>& group) {
  Bar bar{.first = group.front().step - group.front().count + 1, .last = group.back().step};
  for (const StepData& step : group) {
    const double share = static_cast<double>(step.count) / static_cast<double>(steps_in(group));
    bar.seconds += step.seconds * share;
    for (const auto& [axes, seconds] : step.exposed) bar.exposed[axes] += seconds * share;
  }
  bar.compute = bar.seconds;
  for (const auto& [axes, seconds] : bar.exposed) bar.compute -= seconds;
  bar.compute = std::max(bar.compute, Seconds());
  return bar;
}

/// Leaves out the first step, which is slower because of one-time work and would flatten the
/// others.
std::vector<Bar> bars_of(const RunData& run) {
  const std::vector<StepData> steps(run.steps.begin() + (run.steps.size() > 1 ? 1 : 0),
                                    run.steps.end());
  std::vector<Bar> bars;
  for (const std::vector<StepData>& group : grouped(steps, kMostBars)) {
    bars.push_back(mean_of(group));
  }
  return bars;
}

std::string piece(const std::string& colour, double left, double width, double low, double high) {
  return concat("<rect class=\"", colour, "\" x=\"", px(left), "\" y=\"", px(high), "\" width=\"",
                px(width), "\" height=\"", px(low - high), "\"/>");
}

std::string draw(const Bar& bar, const Scale& x, const Scale& y, const Palette& palette) {
  const double left = x(static_cast<double>(bar.first) - 0.4);
  const double width = x(static_cast<double>(bar.last) + 0.4) - left;
  const std::string name = bar.first == bar.last ? concat("step ", bar.first)
                                                 : concat("steps ", bar.first, "-", bar.last);
  std::string title = concat(name, ": ", bar.seconds, ", compute ", bar.compute);
  double reached = bar.compute.value() * 1e3;
  std::string pieces = piece("compute", left, width, y(0), y(reached));
  for (const std::string& axes : palette.axes()) {
    const auto found = bar.exposed.find(axes);
    if (found == bar.exposed.end() || found->second <= Seconds()) continue;
    const double next = reached + found->second.value() * 1e3;
    pieces += piece(palette.of_axes(axes), left, width, y(reached), y(next));
    title += concat(", waiting for ", axes, " ", found->second);
    reached = next;
  }
  return concat("<g class=\"bar\"><title>", escaped(title), "</title>", pieces, "</g>\n");
}

}  // namespace

std::vector<std::vector<StepData>> grouped(const std::vector<StepData>& steps, std::size_t most) {
  const std::size_t size = (steps.size() + most - 1) / most;
  std::vector<std::vector<StepData>> groups;
  for (std::size_t begin = 0; begin < steps.size(); begin += size) {
    const std::size_t end = std::min(begin + size, steps.size());
    groups.emplace_back(steps.begin() + static_cast<std::ptrdiff_t>(begin),
                        steps.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return groups;
}

std::int64_t steps_in(const std::vector<StepData>& group) {
  std::int64_t sum = 0;
  for (const StepData& step : group) sum += step.count;
  return sum;
}

std::string step_chart(const RunData& run, const Palette& palette) {
  const Plot plot;
  const std::vector<Bar> bars = bars_of(run);
  if (bars.empty()) return "<p>There is no step to draw.</p>\n";
  Seconds longest(1e-9);
  for (const Bar& bar : bars) longest = std::max(longest, bar.seconds);
  const Scale x = plot.x(static_cast<double>(bars.front().first) - 0.5,
                         static_cast<double>(bars.back().last) + 0.5);
  const Scale y = plot.y(0, longest.value() * 1e3 * 1.05);
  std::string html = concat(open_svg(plot.width, plot.height, "steps", "time of each step"),
                            frame(plot, x, y, {"step", "milliseconds"}));
  std::vector<LegendEntry> entries = {{"compute", "compute"}};
  for (const Bar& bar : bars) html += draw(bar, x, y, palette);
  html += "</svg>\n";
  for (const std::string& axes : palette.axes()) {
    const bool seen = std::any_of(bars.begin(), bars.end(),
                                  [&](const Bar& bar) { return bar.exposed.contains(axes); });
    if (seen) entries.push_back({palette.of_axes(axes), "waiting for " + axes});
  }
  html += legend(entries);
  std::int64_t group = 1;
  for (const Bar& bar : bars) group = std::max(group, bar.last - bar.first + 1);
  return html + concat("<p>Of rank 0", run.steps.size() > 1 ? ", without the first step." : ".",
                       group > 1 ? concat(" Each bar is the mean of ", group, " steps.") : "",
                       "</p>\n");
}

}  // namespace fourfold::report
