// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <deque>

#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::train {

namespace {

using Json = nlohmann::ordered_json;

template <class... Values>
std::string format(const char* text, Values... values) {
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(), text, values...);
  return line.data();
}

Json json_of(const StepMetrics& step) {
  Json json = {{"step", step.step},
               {"loss", step.loss},
               {"grad_norm", step.grad_norm},
               {"lr", step.rate},
               {"seconds", step.seconds.value()},
               {"exposed_seconds", step.exposed.value()}};
  if (step.count > 1) json["mean_of"] = step.count;
  if (step.skipped > 0) json["skipped"] = step.skipped;
  json["communication"] = Json::array();
  for (const CommunicationTime& time : step.communication) {
    json["communication"].push_back({{"op", schedule::to_string(time.op)},
                                     {"axes", time.axes},
                                     {"seconds", time.seconds.value()},
                                     {"exposed_seconds", time.exposed.value()}});
  }
  return json;
}

Json json_of(const comm::CounterKey& key, const comm::Count& count) {
  return {{"op", schedule::to_string(key.op)},
          {"axes", key.axes},
          {"group_size", key.group_size},
          {"calls", count.calls},
          {"payload_bytes", count.payload.value()},
          {"wire_bytes", count.wire.bytes.value()},
          {"messages", count.wire.messages},
          {"seconds", count.seconds.value()},
          {"exposed_seconds", count.exposed_seconds.value()}};
}

/// Combines two means of `count_a` and `count_b` values.
template <class Number>
Number mean(Number a, std::int64_t count_a, Number b, std::int64_t count_b) {
  const double share = static_cast<double>(count_b) / static_cast<double>(count_a + count_b);
  return a * (1 - share) + b * share;
}

Json json_of(const RunFacts& facts) {
  Json json = {{"started", facts.started},
               {"total_seconds", facts.total.value()},
               {"command", facts.command},
               {"strategy", facts.strategy},
               {"precision", facts.precision},
               {"parameters", facts.parameters},
               {"steps", facts.steps},
               {facts.unit + "_per_step", facts.units_per_step},
               {"data", facts.data},
               {"train_" + facts.unit, facts.train_units},
               {"validation_" + facts.unit, facts.validation_units},
               {"epochs", facts.epochs},
               {"init_from", facts.init_from.empty() ? Json(nullptr) : Json(facts.init_from)}};
  json["versions"] = Json::object();
  for (const auto& [name, version] : facts.versions) json["versions"][name] = version;
  json["hosts"] = Json::array();
  for (const auto& [host, ranks] : facts.hosts) {
    json["hosts"].push_back({{"host", host}, {"ranks", ranks}});
  }
  return json;
}

}  // namespace

void StepMetrics::merge(const StepMetrics& later) {
  const auto average = [&](auto& mine, const auto& theirs) {
    mine = mean(mine, count, theirs, later.count);
  };
  const auto average_of_good = [&](double& mine, double theirs) {
    const std::int64_t more = later.count - later.skipped;
    if (more > 0) mine = skipped < count ? mean(mine, count - skipped, theirs, more) : theirs;
  };
  average_of_good(loss, later.loss);
  average_of_good(grad_norm, later.grad_norm);
  average(rate, later.rate);
  average(seconds, later.seconds);
  average(exposed, later.exposed);
  average(units_per_second, later.units_per_second);
  average(mfu, later.mfu);
  // Not every step has every operation.
  std::map<std::pair<schedule::Op, std::string>, CommunicationTime> all;
  for (const CommunicationTime& time : communication) {
    all[{time.op, time.axes}] = {time.op, time.axes, mean(time.seconds, count, {}, later.count),
                                 mean(time.exposed, count, {}, later.count)};
  }
  for (const CommunicationTime& time : later.communication) {
    CommunicationTime& sum = all[{time.op, time.axes}];
    sum.op = time.op;
    sum.axes = time.axes;
    sum.seconds += mean({}, count, time.seconds, later.count);
    sum.exposed += mean({}, count, time.exposed, later.count);
  }
  communication.clear();
  for (const auto& [key, time] : all) communication.push_back(time);
  communication.shrink_to_fit();
  step = later.step;
  count += later.count;
  skipped += later.skipped;
}

void Validation::merge(const Validation& later) {
  loss = mean(loss, count, later.loss, later.count);
  step = later.step;
  count += later.count;
}

std::string short_time(Seconds time) {
  const auto seconds = static_cast<long long>(std::llround(std::max(0.0, time.value())));
  if (seconds >= 3600) return format("%lldh%02lldm", seconds / 3600, seconds / 60 % 60);
  if (seconds >= 60) return format("%lldm%02llds", seconds / 60, seconds % 60);
  return format("%llds", seconds);
}

std::string describe_rate(double units_per_second, const std::string& unit) {
  const char* numbers = unit == "tokens" || units_per_second >= 1000 ? "%.0f %s/s" : "%.1f %s/s";
  return format(numbers, units_per_second, unit.c_str());
}

std::string describe(const StepMetrics& s, std::int64_t steps, Seconds left,
                     const std::string& unit) {
  const double exposed = s.seconds.value() > 0 ? s.exposed / s.seconds : 0;
  return format(
      "step %lld/%lld  loss %.4f  lr %.2e  norm %.3f  %s  mfu %.2f  exposed %.1f%%  "
      "%s left",
      static_cast<long long>(s.step), static_cast<long long>(steps), s.loss, s.rate, s.grad_norm,
      describe_rate(s.units_per_second, unit).c_str(), s.mfu, 100 * exposed,
      short_time(left).c_str());
}

std::string to_json(const RunMetrics& run) {
  Json json = {{"ranks", run.ranks}, {"grid", run.grid}, {"run", json_of(run.facts)}};
  json["steps"] = Json::array();
  for (const StepMetrics& step : run.steps.entries()) json["steps"].push_back(json_of(step));
  json["communication"] = Json::array();
  for (const auto& [key, count] : run.communication) {
    json["communication"].push_back(json_of(key, count));
  }
  for (std::size_t i = 0; i < tensor::kMemoryClasses; ++i) {
    json["memory"][to_string(static_cast<tensor::MemoryClass>(i))] = run.memory.by_class[i].value();
  }
  const Json val_loss = run.validations.empty() ? Json(nullptr) : Json(run.validations.last().loss);
  json["summary"] = {{"val_loss", val_loss},
                     {"step_seconds", median_step(run.steps.entries()).value()},
                     {run.facts.unit + "_per_second", run.units_per_second},
                     {"model_flops_per_second", run.model_flops.value()},
                     {"gemm_flops_per_second", run.gemm_flops.value()},
                     {"mfu", run.mfu},
                     {"construction_bytes", run.construction.value()},
                     {"peak_bytes", run.peak.value()},
                     {"peak_rss_bytes", run.peak_rss.value()},
                     {"skipped_steps", skipped_steps(run.steps.entries())},
                     {"checkpoints", run.checkpoints},
                     {"checkpoint_blocked_seconds", run.checkpoint_blocked.value()}};
  if (run.predicted_step > Seconds()) {
    json["summary"]["predicted_step_seconds"] = run.predicted_step.value();
  }
  if (run.predicted_memory > Bytes()) {
    json["summary"]["predicted_peak_bytes"] = run.predicted_memory.value();
  }
  return json.dump(2) + "\n";
}

void add(comm::Counts& sum, const comm::Counts& more) {
  for (const auto& [key, count] : more) {
    comm::Count& total = sum[key];
    total.calls += count.calls;
    total.payload += count.payload;
    total.wire += count.wire;
    total.seconds += count.seconds;
    total.exposed_seconds += count.exposed_seconds;
  }
}

Seconds exposed(const comm::Counts& counts) {
  Seconds sum;
  for (const auto& [key, count] : counts) sum += count.exposed_seconds;
  return sum;
}

std::vector<CommunicationTime> communication_times(const comm::Counts& counts) {
  std::vector<CommunicationTime> times;
  for (const auto& [key, count] : counts) {
    if (key.group_size == 1) continue;
    times.push_back({key.op, key.axes, count.seconds, count.exposed_seconds});
  }
  return times;
}

std::map<std::string, Seconds> exposed_by_axes(const StepMetrics& step) {
  std::map<std::string, Seconds> sums;
  for (const CommunicationTime& time : step.communication) sums[time.axes] += time.exposed;
  return sums;
}

std::int64_t skipped_steps(const std::vector<StepMetrics>& steps) {
  std::int64_t sum = 0;
  for (const StepMetrics& step : steps) sum += step.skipped;
  return sum;
}

Seconds median_step(const std::vector<StepMetrics>& steps) {
  std::vector<Seconds> times;
  for (std::size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i) {
    times.push_back(steps[i].seconds);
  }
  return median(std::move(times));
}

Seconds median(std::vector<Seconds> times) {
  if (times.empty()) return {};
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

MetricsFiles::MetricsFiles(const std::string& folder, std::string unit)
    : unit_(std::move(unit)),
      lines_(folder + "/metrics.jsonl"),
      events_(folder),
      log_(folder + "/log.txt") {}

/// Each write is tried, also where one before it has failed.
template <class... Writes>
void MetricsFiles::attempt(const Writes&... writes) {
  bool failed = false;
  const auto one = [&](const auto& write) {
    try {
      write();
    } catch (const IoError& error) {
      failure_ = error.what();
      failed = true;
    }
  };
  (one(writes), ...);
  if (!failed && !lines_.waits() && !events_.waits() && !log_.waits()) failure_.clear();
}

void MetricsFiles::step(const StepMetrics& s) {
  const std::string rate = unit_ + "_per_second";
  std::vector<formats::JsonLines::Field> fields = {{"step", static_cast<double>(s.step)},
                                                   {"loss", s.loss},
                                                   {"grad_norm", s.grad_norm},
                                                   {"lr", s.rate},
                                                   {"seconds", s.seconds.value()},
                                                   {"exposed_seconds", s.exposed.value()},
                                                   {rate, s.units_per_second},
                                                   {"mfu", s.mfu}};
  if (s.skipped > 0) fields.emplace_back("skipped", static_cast<double>(s.skipped));
  std::deque<std::string> names;  // the names that the fields point to
  for (const CommunicationTime& time : s.communication) {
    const std::string key = concat(time.op, ".", time.axes);
    fields.emplace_back(names.emplace_back("seconds." + key), time.seconds.value());
    fields.emplace_back(names.emplace_back("exposed." + key), time.exposed.value());
  }
  std::vector<formats::Scalar> scalars = {{"train/loss", s.loss},
                                          {"train/grad_norm", s.grad_norm},
                                          {"train/lr", s.rate},
                                          {"speed/" + rate, s.units_per_second},
                                          {"speed/mfu", s.mfu}};
  for (const auto& [axes, seconds] : exposed_by_axes(s)) {
    scalars.push_back({"exposed/" + axes, seconds.value()});
  }
  attempt([&] { lines_.write(fields); }, [&] { events_.scalars(s.step, scalars); });
}

void MetricsFiles::validation(std::int64_t step, double loss) {
  const std::array<formats::JsonLines::Field, 2> fields = {
      {{"step", static_cast<double>(step)}, {"val_loss", loss}}};
  attempt([&] { lines_.write(fields); }, [&] { events_.scalar("validation/loss", step, loss); });
}

void MetricsFiles::log(const std::string& line) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> stamp{};
  std::strftime(stamp.data(), stamp.size(), "%Y-%m-%d %H:%M:%S", &parts);
  attempt([&] { log_.append(concat(stamp.data(), "  ", line, "\n")); });
}

void MetricsFiles::flush() {
  attempt([&] { lines_.flush(); }, [&] { events_.flush(); });
}

}  // namespace fourfold::train
