// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/plan_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "fourfold/base/text.hpp"

namespace fourfold::planner {

namespace {

/// "data 12%, y+z 3%": the share of the step that compute stands still for these axes.
std::string waits_of(const Predicted& plan) {
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [axes, time] : plan.exposed_by_axes) {
    const double share = time / plan.step;
    if (share >= 5e-3) order.emplace_back(share, axes);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> parts;
  for (const auto& [share, axes] : order) {
    parts.push_back(concat(axes, " ", std::llround(100 * share), "%"));
  }
  return parts.empty() ? "-" : join(parts, ", ");
}

std::vector<std::string> head_of(const Answer& answer) {
  std::vector<std::string> head = {"grid",   "settings", "step", "compute",           "exposed",
                                   "memory", "of limit", "mfu",  answer.unit() + "/s"};
  if (answer.question.tokens > 0) head.emplace_back("days");
  if (answer.question.tokens > 0 && answer.question.cluster.price_per_gpu_hour) {
    head.emplace_back("cost");
  }
  head.emplace_back("waits for");
  return head;
}

std::vector<std::string> row_of(const Answer& answer, const Predicted& plan) {
  const Figures figures = answer.figures_of(plan);
  std::vector<std::string> row = {grid::to_string(plan.candidate.sizes),
                                  settings_of(plan.candidate, answer.question.config.train.batch),
                                  to_string(plan.step),
                                  to_string(plan.compute),
                                  to_string(plan.exposed),
                                  to_string(plan.memory),
                                  percent(plan.memory / answer.question.search.memory),
                                  percent(figures.mfu),
                                  short_number(figures.units_a_second)};
  if (answer.question.tokens > 0) row.push_back(formatted("%.3g", figures.days));
  if (answer.question.tokens > 0 && answer.question.cluster.price_per_gpu_hour) {
    row.push_back(short_number(figures.price));
  }
  row.push_back(waits_of(plan));
  return row;
}

void append(std::vector<std::string>& row, const std::vector<std::string>& more) {
  row.insert(row.end(), more.begin(), more.end());
}

}  // namespace

std::string formatted(const char* how, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), how, value);
  return text.data();
}

std::string short_number(double value) {
  for (const auto& [unit, name] : {std::pair(1e12, " T"), {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}) {
    if (value >= unit) return formatted("%.3g", value / unit) + name;
  }
  return formatted("%.3g", value);
}

std::string percent(double share) {
  return formatted("%.1f%%", 100 * share);
}

Rows ranking_rows(const Answer& answer) {
  Rows table{.head = {"#", "strategy"}, .rows = {}, .left = 4};
  append(table.head, head_of(answer));
  for (std::size_t i = 0; i < answer.found.plans.size(); ++i) {
    const Predicted& plan = answer.found.plans[i];
    std::vector<std::string> row = {std::to_string(i + 1), plan.candidate.strategy};
    append(row, row_of(answer, plan));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Rows strategy_rows(const Answer& answer) {
  Rows table{.head = {"strategy"}, .rows = {}, .left = 3};
  append(table.head, head_of(answer));
  table.head.emplace_back("of the best");
  const double best = answer.found.plans.front().step.value();
  for (const Answer::ByName& one : answer.by_name) {
    std::vector<std::string> row = {one.strategy};
    if (one.plan) {
      append(row, row_of(answer, *one.plan));
      row.push_back(formatted("%.2fx", one.plan->step.value() / best));
    } else {
      row.push_back(one.why);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Rows rejected_rows(const Answer& answer) {
  Rows table{.head = {"reason", "candidates"}, .rows = {}, .left = 1};
  for (const auto& [reason, count] : answer.found.rejected) {
    table.rows.push_back({reason, std::to_string(count)});
  }
  return table;
}

}  // namespace fourfold::planner
