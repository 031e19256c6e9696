// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/scaling.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "fourfold/base/text.hpp"
#include "fourfold/base/text_table.hpp"
#include "fourfold/planner/page_parts.hpp"
#include "fourfold/planner/plan_rows.hpp"
#include "fourfold/report/html.hpp"
#include "fourfold/report/palette.hpp"
#include "fourfold/report/plot.hpp"

namespace fourfold::planner {

using report::escaped;
using report::px;

namespace {

const ScalingPoint* first_of(const Scaling& scaling) {
  for (const ScalingPoint& point : scaling.points) {
    if (point.plan) return &point;
  }
  return nullptr;
}

/// A curve over the number of devices, on logarithmic axes, with a dashed line of perfect scaling.
std::string curve(const Scaling& scaling, const std::string& id, const std::string& label,
                  const std::function<double(const ScalingPoint&)>& value, bool ideal) {
  const ScalingPoint* first = first_of(scaling);
  if (first == nullptr) return "<p>Nothing fits.</p>\n";
  const report::Plot plot;
  double low = value(*first);
  double high = low;
  for (const ScalingPoint& point : scaling.points) {
    if (!point.plan) continue;
    low = std::min(low, value(point));
    high = std::max(high, value(point));
  }
  const double x0 = std::log2(first->ranks);
  const double x1 = std::max(x0 + 1, std::log2(scaling.points.back().ranks));
  const auto scale = [&](double number) { return ideal ? std::log2(number) : number; };
  constexpr double kRoom = 40;  // for the number at the last point
  const report::Scale x{x0, x1, plot.left, plot.right - kRoom};
  const double below = ideal ? 18 : -8;  // a number is where the dashed line is not
  const report::Scale y =
      ideal ? plot.y(scale(low) - 0.3, scale(high) + 0.5) : plot.y(0, high * 1.1);
  std::string svg = report::open_svg(plot.width, plot.height, id, label);
  std::string path;
  for (const ScalingPoint& point : scaling.points) {
    const double at = x(std::log2(point.ranks));
    svg += concat("<text class=\"mid\" x=\"", px(at), "\" y=\"", px(plot.bottom + 16), "\">",
                  point.ranks, "</text>");
    if (!point.plan) continue;
    const double high_at = y(scale(value(point)));
    path += concat(path.empty() ? "M" : "L", px(at), " ", px(high_at));
    svg += concat("<circle class=\"dot training\" cx=\"", px(at), "\" cy=\"", px(high_at),
                  "\" r=\"3.5\"><title>",
                  escaped(concat(point.ranks, " GPUs, ", point.plan->candidate.sizes, ": ",
                                 report::number(value(point), 4))),
                  "</title></circle>", "<text class=\"mid\" x=\"", px(at), "\" y=\"",
                  px(high_at + below), "\">", short_number(value(point)), "</text>\n");
  }
  svg += concat("<path class=\"line training\" d=\"", path, "\"/>\n");
  if (ideal) {
    const double end = value(*first) * scaling.points.back().ranks / first->ranks;
    svg += concat("<line class=\"axis\" stroke-dasharray=\"4 4\" x1=\"", px(x(x0)), "\" y1=\"",
                  px(y(scale(value(*first)))), "\" x2=\"",
                  px(x(std::log2(scaling.points.back().ranks))), "\" y2=\"", px(y(scale(end))),
                  "\"/>\n");
  }
  svg +=
      concat("<line class=\"axis\" x1=\"", px(plot.left), "\" x2=\"", px(plot.right), "\" y1=\"",
             px(plot.bottom), "\" y2=\"", px(plot.bottom), "\"/><text class=\"label mid\" x=\"",
             px((plot.left + plot.right) / 2), "\" y=\"", px(plot.bottom + 36), "\">GPUs</text>");
  return svg + "</svg>\n";
}

Rows rows_of(const Scaling& scaling) {
  Rows table{.head = {"gpus", "grid", "settings", "step", "memory", "mfu", scaling.unit + "/s",
                      "speed-up", "efficiency"},
             .rows = {},
             .left = 3};
  for (const ScalingPoint& point : scaling.points) {
    if (!point.plan) {
      table.rows.push_back({std::to_string(point.ranks), "nothing fits"});
      continue;
    }
    const Predicted& plan = *point.plan;
    table.rows.push_back({std::to_string(point.ranks), grid::to_string(plan.candidate.sizes),
                          settings_of(plan.candidate, scaling.batch), to_string(plan.step),
                          to_string(plan.memory), percent(point.figures.mfu),
                          short_number(point.figures.units_a_second),
                          formatted("%.2f", scaling.speedup(point)),
                          formatted("%.0f%%", 100 * scaling.efficiency(point))});
  }
  return table;
}

}  // namespace

double Scaling::speedup(const ScalingPoint& point) const {
  return point.figures.units_a_second / first_of(*this)->figures.units_a_second;
}

double Scaling::efficiency(const ScalingPoint& point) const {
  return speedup(point) * first_of(*this)->ranks / point.ranks;
}

Scaling scale(const Question& question, int first, int last,
              const std::function<void(const ScalingPoint&)>& shown) {
  Scaling scaling;
  scaling.cluster = question.cluster.name;
  scaling.remark = larger_than_it_is(question.cluster, last);
  scaling.batch = question.config.train.batch;
  const auto known = std::make_shared<Predictions>(question.config, question.cluster);
  for (std::int64_t ranks = first; ranks <= last; ranks *= 2) {
    Question one = question;
    one.ranks = static_cast<int>(ranks);
    one.search.top = 1;
    one.search.known = known;
    const Answer found = answer(std::move(one));
    scaling.unit = found.unit();
    ScalingPoint point;
    point.ranks = static_cast<int>(ranks);
    if (!found.found.plans.empty()) {
      point.plan = found.found.plans.front();
      point.figures = found.figures_of(*point.plan);
    }
    scaling.points.push_back(point);
    if (shown) shown(point);
    if (ranks * 2 > last && first_of(scaling) == nullptr) check_found(found);
  }
  return scaling;
}

std::string to_text(const Scaling& scaling) {
  const Rows rows = rows_of(scaling);
  TextTable table(rows.head, rows.left);
  for (const std::vector<std::string>& row : rows.rows) table.add(row);
  return table.text() + (scaling.remark.empty() ? "" : scaling.remark + "\n");
}

std::string to_json(const Scaling& scaling) {
  nlohmann::ordered_json json = {{"cluster", scaling.cluster},
                                 {"points", nlohmann::ordered_json::array()}};
  for (const ScalingPoint& point : scaling.points) {
    nlohmann::ordered_json one = {{"gpus", point.ranks}};
    if (point.plan) {
      const grid::Sizes& s = point.plan->candidate.sizes;
      one["grid"] = {{"x", s.x}, {"y", s.y}, {"z", s.z}, {"data", s.data}, {"pipe", s.pipe}};
      one["step_seconds"] = point.plan->step.value();
      one["memory_bytes"] = point.plan->memory.value();
      one["mfu"] = point.figures.mfu;
      one[scaling.unit + "_per_second"] = point.figures.units_a_second;
      one["efficiency"] = scaling.efficiency(point);
    }
    json["points"].push_back(std::move(one));
  }
  return json.dump(2) + "\n";
}

std::string to_page(const Scaling& scaling) {
  const auto units = [](const ScalingPoint& p) { return p.figures.units_a_second; };
  const auto mfu = [](const ScalingPoint& p) { return 100 * p.figures.mfu; };
  const std::string legend = report::legend(
      {{"training", "the best plan, as predicted"}, {"ideal", "perfect scaling (dashed)"}});
  const std::string about =
      concat("The best plan for each number of GPUs, with a batch of ", scaling.batch,
             scaling.unit == "tokens" ? " sequences" : " images", " a step",
             scaling.remark.empty() ? "" : "; ", scaling.remark);
  const std::string content = concat(
      "<div class=\"pair\">",
      section(concat(scaling.unit == "tokens" ? "Tokens" : "Images", " a second"),
              curve(scaling, scaling.unit, scaling.unit + " a second", units, true) + legend),
      section("mfu in percent", curve(scaling, "mfu", "mfu in percent", mfu, false)), "</div>\n",
      section("The best plans", table_of("points", rows_of(scaling))));
  return document(concat("Scaling on ", scaling.cluster), about, content,
                  "fourfold plan --sweep --html");
}

}  // namespace fourfold::planner
