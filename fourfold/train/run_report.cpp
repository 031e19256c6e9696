// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/run_report.hpp"

#include <array>
#include <cstdio>

#include "fourfold/base/text.hpp"
#include "fourfold/config/write.hpp"

namespace fourfold::train {

namespace {

std::string with_decimals(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string about(const config::Config& config, const RunMetrics& run) {
  const config::ModelConfig& model = config.model;
  if (model.has_images()) {
    return concat("U-Net for images of ", model.image, " x ", model.image, ", ", model.channels,
                  " channels times ", join(model.multipliers, ", "), ", ", model.blocks,
                  model.blocks == 1 ? " block" : " blocks", " a level, ",
                  config::to_string(config.train.precision), " \u00b7 grid ", run.grid);
  }
  return concat(model.kind == "gpt" ? "GPT" : "Llama", " with ", model.layers, " layers, width ",
                model.width, ", ", model.heads, " heads, context ", model.context, ", vocabulary ",
                model.vocab, ", ", config::to_string(config.train.precision), " \u00b7 grid ",
                run.grid);
}

/// The exposed share of the time of all steps but the first, which is slower because of one-time
/// work.
double exposed_share(const std::vector<StepMetrics>& steps) {
  Seconds exposed;
  Seconds total;
  for (std::size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i) {
    exposed += steps[i].exposed * static_cast<double>(steps[i].count);
    total += steps[i].seconds * static_cast<double>(steps[i].count);
  }
  return total > Seconds() ? exposed / total : 0;
}

std::vector<std::pair<std::string, std::string>> figures(const RunMetrics& run) {
  std::vector<std::pair<std::string, std::string>> all;
  if (!run.steps.empty()) all.emplace_back("loss", with_decimals(run.steps.last().loss, 4));
  if (!run.validations.empty()) {
    all.emplace_back("validation loss", with_decimals(run.validations.last().loss, 4));
  }
  const bool tokens = run.facts.unit == "tokens";
  all.emplace_back(run.facts.unit + "/s", with_decimals(run.units_per_second, tokens ? 0 : 1));
  all.emplace_back("mfu", with_decimals(run.mfu, 3));
  all.emplace_back("median step", concat(median_step(run.steps.entries())));
  if (run.predicted_step > Seconds()) {
    all.emplace_back("predicted step", concat(run.predicted_step));
  }
  all.emplace_back("exposed", with_decimals(100 * exposed_share(run.steps.entries()), 1) + " %");
  return all;
}

}  // namespace

report::RunData report_of(const std::string& name, const config::Config& config,
                          const RunMetrics& run, std::vector<report::RankTrace> traces) {
  report::RunData data;
  data.name = name;
  data.about = about(config, run);
  data.figures = figures(run);
  data.facts = listed(run.facts);
  for (const StepMetrics& step : run.steps.entries()) {
    data.steps.push_back({step.step, step.loss, step.seconds, exposed_by_axes(step), step.count});
  }
  for (const Validation& validation : run.validations.entries()) {
    data.validations.emplace_back(validation.step, validation.loss);
  }
  data.communication = run.communication;
  for (std::size_t i = 0; i < tensor::kMemoryClasses; ++i) {
    data.memory.emplace_back(to_string(static_cast<tensor::MemoryClass>(i)),
                             run.memory.by_class[i]);
  }
  data.memory.emplace_back("all tensors together", run.peak);
  if (run.predicted_memory > Bytes()) {
    data.memory.emplace_back("all tensors, as predicted", run.predicted_memory);
  }
  data.memory.emplace_back("whole process", run.peak_rss);
  data.configuration = config::to_toml(config);
  data.traces = std::move(traces);
  return data;
}

}  // namespace fourfold::train
