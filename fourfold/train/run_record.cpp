// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/run_record.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/report/page.hpp"
#include "fourfold/train/pictures.hpp"
#include "fourfold/train/run_report.hpp"

namespace fourfold::train {

namespace {

/// "+3%": how much larger than 1 a ratio is.
std::string difference(double ratio) {
  const auto percent = std::llround(100 * (ratio - 1));
  return concat(percent > 0 ? "+" : "", percent, "%");
}

/// The pictures that the run has drawn until step `last`, the oldest first.
std::vector<std::string> pictures_in(const std::string& folder, std::int64_t last) {
  std::map<long long, std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    long long step =
        0;  // the name must be the whole name: a killed run may leave half-written files
    if (std::sscanf(name.c_str(), "samples-%lld.png", &step) == 1 && name == picture_name(step) &&
        step <= last) {
      found.emplace(step, name);
    }
  }
  std::vector<std::string> names;
  for (auto& [step, name] : found) names.push_back(std::move(name));
  return names;
}

}  // namespace

RunRecord::RunRecord(const RunSpec& spec, const Console& console, bool first)
    : spec_(&spec), console_(&console), first_(first) {}

void RunRecord::say(const std::string& line) {
  if (!first_) return;
  console_->say(line);
  if (!files_) {
    said_.push_back(line);
    return;
  }
  files_->log(line);
  tell_failures();
}

/// Once, and not into the files.
void RunRecord::tell_failures() {
  const bool fails = !files_->failure().empty();
  if (fails == std::exchange(failing_, fails)) return;
  console_->say(fails ? concat(files_->failure(),
                               "; training goes on, and what is missing is written when it can be")
                      : concat("all files in ", folder_, " are written again"));
}

void RunRecord::flush() {
  if (!files_) return;
  files_->flush();
  tell_failures();
}

void RunRecord::open(const std::string& folder, History before) {
  if (!first_) return;
  folder_ = folder;
  metrics.steps = std::move(before.steps);
  metrics.validations = std::move(before.validations);
  files_.emplace(folder, unit_of(spec_->config.model));
  for (const std::string& line : said_) files_->log(line);
  pictures_ = pictures_in(folder, metrics.steps.empty() ? 0 : metrics.steps.last().step);
}

void RunRecord::step(const StepMetrics& step) {
  if (!first_) return;
  metrics.steps.add(step);
  files_->step(step);
  tell_failures();
  // The last steps predict best how long the others will take, and the first step predicts worst.
  constexpr std::size_t kRecent = 100;
  if (++steps_ == 2 || recent_.size() == kRecent) recent_.erase(recent_.begin());
  recent_.push_back(step.seconds);
  tell(step);
}

void RunRecord::tell(const StepMetrics& step) {
  const config::TrainConfig& config = spec_->config.train;
  const bool due = step.step % config.log_every == 0 || step.step == config.steps;
  if (!due && !console_->lively) return;
  const auto left = static_cast<double>(config.steps - step.step);
  const std::string line =
      describe(step, config.steps, left * median(recent_), unit_of(spec_->config.model));
  if (due) files_->log(line);
  tell_failures();
  if (console_->lively) {
    console_->show(line);
  } else if (due) {
    console_->say(line);
  }
}

void RunRecord::validation(std::int64_t number, double loss) {
  if (!first_) return;
  metrics.validations.add({.step = number, .loss = loss});
  files_->validation(number, loss);
  tell_failures();
  say(concat("step ", number, "  validation loss ", loss));
}

void RunRecord::picture(std::int64_t number, const formats::Picture& picture) {
  if (!first_) return;
  const std::string name = picture_name(number);
  try {
    for (const std::string& file : {name, std::string("samples.png")}) {
      formats::write_png(folder_ + "/" + file, picture);
    }
  } catch (const IoError& error) {
    return say(concat("step ", number, "  no pictures: ", error.what(), "; training goes on"));
  }
  pictures_.push_back(name);
  say(concat("step ", number, "  pictures in ", folder_, "/", name));
}

void RunRecord::summarise(Flops flops, const std::optional<Prediction>& predicted) {
  if (!first_) return;
  metrics.facts.total = now() - begin_;
  const Seconds median = median_step(metrics.steps.entries());
  metrics.units_per_second = static_cast<double>(units_of_step(spec_->config)) / median.value();
  metrics.model_flops = flops / median;
  metrics.mfu = metrics.model_flops / metrics.gemm_flops;
  say(concat(
      "median step ", median, ", ", describe_rate(metrics.units_per_second, metrics.facts.unit),
      ", ", metrics.model_flops, " of ", metrics.gemm_flops,
      spec_->config.device.gflops > 0 ? " of all devices: mfu " : " that products reach here: mfu ",
      std::round(1000 * metrics.mfu) / 1000));
  if (predicted) compare(median, *predicted);
  const std::int64_t skipped = skipped_steps(metrics.steps.entries());
  if (skipped > 0) say(concat(skipped, skipped == 1 ? " step" : " steps", " updated nothing"));
  say(concat("the whole run took ", short_time(metrics.facts.total)));
  say(concat("the model is in ", folder_));
}

void RunRecord::compare(Seconds step, const Prediction& predicted) {
  metrics.predicted_step = predicted.step;
  metrics.predicted_memory = predicted.memory;
  if (!predicted.missing.empty()) {
    if (predicted.memory > Bytes()) {
      say(concat("predicted: ", predicted.memory, " of tensors; measured: ", metrics.peak,
                 " (the prediction is ", difference(predicted.memory / metrics.peak), " off)"));
    }
    say(predicted.missing);
    return;
  }
  say(concat("predicted: a step of ", predicted.step, " and ", predicted.memory,
             " of tensors; measured: ", step, " and ", metrics.peak, " (the prediction is ",
             difference(predicted.step / step), " and ",
             difference(predicted.memory / metrics.peak), " off)"));
}

void RunRecord::write_results(std::vector<report::RankTrace> traces,
                              std::optional<Prediction> predicted) {
  if (!first_) return;
  if (!spec_->json.empty()) write_text(spec_->json, to_json(metrics));
  if (spec_->report.empty()) return;
  report::RunData data = report_of(spec_->name, spec_->config, metrics, std::move(traces));
  data.pictures = latest_pictures();
  if (predicted) {
    data.predicted = std::move(predicted->traces);
    data.predicted_part = predicted->part;
  }
  write_text(spec_->report, report::page(data));
  say(concat("the report is in ", spec_->report));
}

std::vector<report::PictureData> RunRecord::latest_pictures() const {
  constexpr std::size_t kMost = 4;
  std::vector<report::PictureData> latest;
  for (auto name = pictures_.rbegin(); name != pictures_.rend() && latest.size() < kMost; ++name) {
    std::ifstream file(folder_ + "/" + *name, std::ios::binary);
    latest.push_back({*name, {std::istreambuf_iterator<char>(file), {}}});
  }
  return latest;
}

}  // namespace fourfold::train
