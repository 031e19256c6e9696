// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>

#include "fourfold/base/text.hpp"
#include "fourfold/report/charts.hpp"
#include "fourfold/report/html.hpp"
#include "fourfold/report/plot.hpp"

namespace fourfold::report {

namespace {

constexpr std::size_t kMostPoints = 400;
/// Up to this number of values, each value also gets a dot that shows its number.
constexpr std::size_t kMostDots = 100;

struct Point {
  double step = 0;
  double loss = 0;
};
using Curve = std::vector<Point>;

/// The mean of each group of steps, without those whose loss is not finite.
Curve training_curve(const RunData& run) {
  Curve curve;
  for (const std::vector<StepData>& group : grouped(run.steps, kMostPoints)) {
    Point sum;
    double count = 0;
    for (const StepData& step : group) {
      if (!std::isfinite(step.loss)) continue;  // it was skipped
      const auto steps = static_cast<double>(step.count);
      sum.step += steps * static_cast<double>(2 * step.step - step.count + 1) / 2;
      sum.loss += steps * step.loss;
      count += steps;
    }
    if (count > 0) curve.push_back({sum.step / count, sum.loss / count});
  }
  return curve;
}

Curve validation_curve(const RunData& run) {
  Curve curve;
  const std::size_t stride = run.validations.size() / kMostPoints + 1;
  for (std::size_t i = 0; i < run.validations.size(); ++i) {
    // The last value is always drawn, since it is the result.
    if ((run.validations.size() - 1 - i) % stride != 0) continue;
    const auto& [step, loss] = run.validations[i];
    if (std::isfinite(loss)) curve.push_back({static_cast<double>(step), loss});
  }
  return curve;
}

std::string draw(const Curve& curve, const Scale& x, const Scale& y, const std::string& name) {
  if (curve.empty()) return "";
  std::string svg = concat("<path class=\"line ", name, "\" d=\"");
  for (std::size_t i = 0; i < curve.size(); ++i) {
    svg += concat(i == 0 ? "M" : "L", px(x(curve[i].step)), " ", px(y(curve[i].loss)));
  }
  svg += "\"/>\n";
  if (curve.size() > kMostDots) return svg;
  for (const Point& point : curve) {
    svg += concat("<circle class=\"dot ", name, "\" cx=\"", px(x(point.step)), "\" cy=\"",
                  px(y(point.loss)), "\" r=\"2.5\"><title>step ", number(point.step, 9), ": ",
                  number(point.loss, 6), "</title></circle>\n");
  }
  return svg;
}

/// The range of both curves, with a margin.
std::optional<Scale> loss_scale(const Plot& plot, const Curve& training, const Curve& validation) {
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  for (const Curve* curve : {&training, &validation}) {
    for (const Point& point : *curve) {
      low = std::min(low, point.loss);
      high = std::max(high, point.loss);
    }
  }
  if (low > high) return std::nullopt;
  const double air = std::max((high - low) * 0.06, 1e-6 * std::max(1.0, std::abs(high)));
  return plot.y(low - air, high + air);
}

}  // namespace

std::string loss_chart(const RunData& run) {
  const Plot plot;
  const Curve training = training_curve(run);
  const Curve validation = validation_curve(run);
  const std::optional<Scale> y = loss_scale(plot, training, validation);
  if (!y || run.steps.empty()) return "<p>There is no loss to draw.</p>\n";
  const auto first = static_cast<double>(run.steps.front().step);
  const Scale x = plot.x(first, std::max(first + 1, static_cast<double>(run.steps.back().step)));
  std::string html = concat(open_svg(plot.width, plot.height, "loss", "loss over steps"),
                            frame(plot, x, *y, {"step", "loss"}), draw(training, x, *y, "training"),
                            draw(validation, x, *y, "validation"), "</svg>\n");
  std::vector<LegendEntry> entries = {{"training", "training"}};
  if (!validation.empty()) entries.push_back({"validation", "validation"});
  html += legend(entries);
  std::int64_t most = 1;
  for (const auto& group : grouped(run.steps, kMostPoints)) most = std::max(most, steps_in(group));
  if (most > 1) html += concat("<p>Each point is the mean of ", most, " steps.</p>\n");
  return html;
}

}  // namespace fourfold::report
