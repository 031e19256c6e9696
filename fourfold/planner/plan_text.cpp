// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/plan_text.hpp"

#include "fourfold/base/text.hpp"
#include "fourfold/base/text_table.hpp"
#include "fourfold/planner/plan_rows.hpp"

namespace fourfold::planner {

namespace {

std::string text_of(const Rows& rows) {
  TextTable table(rows.head, rows.left);
  for (const std::vector<std::string>& row : rows.rows) table.add(row);
  return table.text();
}

/// Strategies that have no plan have a reason instead of figures, below the table.
std::string strategies(const Answer& answer) {
  Rows rows = strategy_rows(answer);
  std::string reasons;
  std::erase_if(rows.rows, [&](const std::vector<std::string>& row) {
    if (row.size() > 2) return false;
    reasons += concat(row[0], " ", row[1], "\n");
    return true;
  });
  return concat("The best of each strategy\n\n", rows.rows.empty() ? "" : text_of(rows), reasons);
}

/// The name of a value in a column of fixed width.
std::string padded(const std::string& name) {
  constexpr std::size_t kColumn = 18;
  return name + std::string(name.size() < kColumn ? kColumn - name.size() : 1, ' ');
}

}  // namespace

std::string headline(const Answer& answer) {
  const Question& question = answer.question;
  const std::string larger = larger_than_it_is(question.cluster, question.ranks);
  return concat(question.ranks, question.ranks == 1 ? " device (" : " devices (",
                question.cluster.device.name, ") of ", question.cluster.name, ", ",
                question.cluster.gpus_per_host, " a host, with ", question.search.memory,
                " for tensors each; ", short_number(static_cast<double>(answer.parameters)),
                " parameters, ", answer.units, " ", answer.unit(), " a step",
                larger.empty() ? "" : "; ", larger);
}

std::string comparison(const Answer& answer) {
  const std::vector<Predicted>& plans = answer.found.plans;
  if (plans.size() < 2) return "No other grid fits.";
  return concat("The second is ", difference(plans[0], plans[1]), ".");
}

std::string training_time(const Answer& answer) {
  const Figures figures = answer.figures_of(answer.found.plans.front());
  std::string text = concat(short_number(answer.question.tokens), " ", answer.unit(), " take ");
  constexpr double kHours = 24;
  text += figures.days < 1 ? concat(short_number(figures.days * kHours), " hours")
                           : concat(short_number(figures.days), " days");
  text +=
      concat(" on ", answer.question.ranks, answer.question.ranks == 1 ? " device" : " devices");
  if (answer.question.cluster.price_per_gpu_hour) {
    text += concat(" and cost ", short_number(figures.price), " (",
                   *answer.question.cluster.price_per_gpu_hour, " for each device and hour)");
  } else {
    text += "; the cluster's file has no price";
  }
  return text + ".";
}

std::string searched(const Answer& answer) {
  const SearchResult& found = answer.found;
  return concat(found.considered, " candidates can be split so; ", found.evaluated,
                " of them were run dry, and no other one can be better.");
}

std::string to_text(const Answer& answer) {
  std::string text = concat(headline(answer), "\n\n", text_of(ranking_rows(answer)), "\n",
                            comparison(answer), "\n");
  if (answer.question.tokens > 0) text += training_time(answer) + "\n";
  if (!answer.by_name.empty()) text += concat("\n", strategies(answer));
  text += concat("\n", searched(answer), "\n");
  for (const std::vector<std::string>& row : rejected_rows(answer).rows) {
    text += concat("  rejected ", row[1], ": ", row[0], "\n");
  }
  if (answer.explained) text += concat("\n", explain(answer, *answer.explained));
  return text;
}

std::string explain(const Answer& answer, const Predicted& plan) {
  const Figures figures = answer.figures_of(plan);
  const std::string settings = settings_of(plan.candidate, answer.question.config.train.batch);
  std::string text = concat(plan.candidate.strategy, " ", plan.candidate.sizes,
                            settings.empty() ? "" : ", ", settings, "\n");
  const auto line = [&](const std::string& name, const std::string& value) {
    text += concat("  ", padded(name), value, "\n");
  };
  line("step", concat(plan.step, ", mfu ", percent(figures.mfu), ", ",
                      short_number(figures.units_a_second), " ", answer.unit(), "/s"));
  line("compute", to_string(plan.compute));
  line("exposed", to_string(plan.exposed));
  for (const auto& [axes, time] : plan.exposed_by_axes) line("  along " + axes, to_string(time));
  const Bytes room = answer.question.search.memory;
  line("memory", concat(plan.memory, " of ", room, " (", percent(plan.memory / room), ")"));
  for (std::size_t i = 0; i < tensor::kPlannedClasses; ++i) {
    const auto kind = static_cast<tensor::MemoryClass>(i);
    line(concat("  ", to_string(kind)), to_string(plan.by_class[kind]));
  }
  if (plan.memory > room)
    text += concat("  This does not fit: ", plan.memory - room, " are missing.\n");
  const Predicted& best = answer.found.plans.front();
  if (plan.candidate == best.candidate) return text + "  This is the best plan.\n";
  return text + concat("  Compared with the best plan it is ", difference(best, plan), ".\n");
}

}  // namespace fourfold::planner
