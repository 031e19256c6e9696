// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/plan_text.hpp"

#include <cstdio>

#include "fourfold/base/text.hpp"
#include "fourfold/base/text_table.hpp"

namespace fourfold::planner {

namespace {

std::string format(const char* how, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), how, value);
  return text.data();
}

/// "12.3 M", "341 k".
std::string short_number(double value) {
  for (const auto& [unit, name] : {std::pair(1e12, " T"), {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}) {
    if (value >= unit) return format("%.3g", value / unit) + name;
  }
  return format("%.3g", value);
}

std::vector<std::string> columns_of(const Answer& answer, const Predicted& plan) {
  const Figures figures = answer.figures_of(plan);
  return {grid::to_string(plan.candidate.sizes),
          settings_of(plan.candidate, answer.question.config.train.batch),
          to_string(plan.step),
          to_string(plan.compute),
          to_string(plan.exposed),
          to_string(plan.memory),
          format("%.1f%%", 100 * figures.mfu),
          short_number(figures.terms_a_second)};
}

const std::vector<std::string> kColumns = {"grid",    "settings", "step", "compute",
                                           "exposed", "memory",   "mfu",  "tokens/s"};

std::string ranking(const Answer& answer) {
  std::vector<std::string> head = {"#", "strategy"};
  head.insert(head.end(), kColumns.begin(), kColumns.end());
  TextTable table(head, 4);
  for (std::size_t i = 0; i < answer.found.plans.size(); ++i) {
    const Predicted& plan = answer.found.plans[i];
    std::vector<std::string> row = {std::to_string(i + 1), plan.candidate.strategy};
    const std::vector<std::string> columns = columns_of(answer, plan);
    row.insert(row.end(), columns.begin(), columns.end());
    table.add(std::move(row));
  }
  return table.text();
}

std::string strategies(const Answer& answer) {
  std::vector<std::string> head = {"strategy"};
  head.insert(head.end(), kColumns.begin(), kColumns.end());
  head.emplace_back("of the best");
  TextTable table(head, 3);
  const double best = answer.found.plans.front().step.value();
  for (const Answer::ByName& one : answer.by_name) {
    std::vector<std::string> row = {one.strategy};
    if (one.plan) {
      const std::vector<std::string> columns = columns_of(answer, *one.plan);
      row.insert(row.end(), columns.begin(), columns.end());
      row.push_back(format("%.2fx", one.plan->step.value() / best));
    } else {
      row.push_back(one.why);
    }
    table.add(std::move(row));
  }
  return table.text();
}

std::string exposed_of(const Predicted& plan) {
  std::vector<std::string> parts;
  for (const auto& [axes, time] : plan.exposed_by_axes) {
    if (time.value() >= 5e-3 * plan.step.value()) parts.push_back(concat(time, " along ", axes));
  }
  return parts.empty() ? "almost nothing" : join(parts, ", ");
}

std::string training_time(const Answer& answer) {
  const Figures figures = answer.figures_of(answer.found.plans.front());
  std::string text = concat(short_number(answer.question.tokens), " tokens take ",
                            format("%.3g", figures.days), " days");
  if (figures.price > 0) text += concat(" and cost ", format("%.4g", figures.price));
  return text + "\n";
}

std::string rejected(const Answer& answer) {
  const SearchResult& found = answer.found;
  std::string text = concat(found.considered, " candidates fit the model; ", found.evaluated,
                            " were run dry, the others cannot be faster.\n");
  for (const auto& [reason, count] : found.rejected) {
    text += concat("  rejected: ", count, ": ", reason, "\n");
  }
  return text;
}

}  // namespace

std::string to_text(const Answer& answer) {
  const Question& question = answer.question;
  std::string text =
      concat(question.ranks, " of ", question.cluster.device.name, " on ", question.cluster.name,
             ", ", question.cluster.gpus_per_host, " a host; ",
             short_number(static_cast<double>(answer.parameters)), " parameters, ", answer.terms,
             " tokens a step, ", to_string(question.search.memory), " of memory for a rank\n\n");
  text += ranking(answer);
  const std::vector<Predicted>& plans = answer.found.plans;
  text += concat("\nThe best waits for: ", exposed_of(plans.front()), ".\n");
  if (plans.size() > 1) {
    text += concat("The second is ", difference(plans[0], plans[1]), ".\n");
  }
  if (question.tokens > 0) text += training_time(answer);
  if (!answer.by_name.empty()) text += "\n" + strategies(answer);
  return text + "\n" + rejected(answer);
}

std::string explain(const Answer& answer, const Predicted& plan) {
  const Figures figures = answer.figures_of(plan);
  std::string text = concat(to_string(plan.candidate), "\n");
  text += concat("  step            ", plan.step, ", mfu ", format("%.1f%%", 100 * figures.mfu),
                 ", ", short_number(figures.terms_a_second), " tokens/s\n");
  text += concat("  compute         ", plan.compute, "\n");
  text += concat("  exposed         ", plan.exposed, "\n");
  for (const auto& [axes, time] : plan.exposed_by_axes) {
    text += concat("    along ", axes, std::string(axes.size() < 10 ? 10 - axes.size() : 1, ' '),
                   time, "\n");
  }
  text += concat("  memory          ", plan.memory, " of ", answer.question.search.memory, "\n");
  for (std::size_t i = 0; i < tensor::kPlannedClasses; ++i) {
    const auto kind = static_cast<tensor::MemoryClass>(i);
    const std::string name(to_string(kind));
    text += concat("    ", name, std::string(name.size() < 16 ? 16 - name.size() : 1, ' '),
                   plan.by_class[kind], "\n");
  }
  return text;
}

}  // namespace fourfold::planner
