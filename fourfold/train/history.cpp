// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/history.hpp"

#include <fstream>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::train {

namespace {

using Json = nlohmann::ordered_json;

double number(const Json& json, const std::string& key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

/// The same of a number that may not be finite, which is written as null.
double number_or_nan(const Json& json, const std::string& key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_null() ? std::numeric_limits<double>::quiet_NaN()
                                                 : number(json, key);
}

std::optional<schedule::Op> op_of(std::string_view name) {
  using schedule::Op;
  for (const Op op : {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter, Op::kBroadcast,
                      Op::kReduce, Op::kSend, Op::kRecv, Op::kBarrier}) {
    if (schedule::to_string(op) == name) return op;
  }
  return std::nullopt;
}

/// "seconds.all_gather.y+z": the time of one kind of operation.
std::vector<CommunicationTime> communication_of(const Json& json) {
  constexpr std::string_view kPrefix = "seconds.";
  std::vector<CommunicationTime> times;
  for (const auto& [key, value] : json.items()) {
    if (!key.starts_with(kPrefix)) continue;
    const std::string kind = key.substr(kPrefix.size());
    const std::size_t dot = kind.find('.');
    const std::optional<schedule::Op> op = op_of(kind.substr(0, dot));
    if (!op || dot == std::string::npos) continue;
    times.push_back({*op, kind.substr(dot + 1), Seconds(number(json, key)),
                     Seconds(number(json, "exposed." + kind))});
  }
  return times;
}

StepMetrics step_of(const Json& json, std::int64_t step, const std::string& unit) {
  return {.step = step,
          .loss = number_or_nan(json, "loss"),
          .grad_norm = number_or_nan(json, "grad_norm"),
          .rate = number(json, "lr"),
          .seconds = Seconds(number(json, "seconds")),
          .exposed = Seconds(number(json, "exposed_seconds")),
          .communication = communication_of(json),
          .units_per_second = number(json, unit + "_per_second"),
          .mfu = number(json, "mfu"),
          .skipped = static_cast<std::int64_t>(number(json, "skipped"))};
}

}  // namespace

History cut_history(const std::string& folder, std::int64_t last, const std::string& unit) {
  History history;
  const std::string path = folder + "/metrics.jsonl";
  std::string kept;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step")) break;
    const auto step = static_cast<std::int64_t>(number(json, "step"));
    if (step > last) break;
    kept += line + "\n";
    if (json.contains("val_loss")) {
      history.validations.add({.step = step, .loss = number_or_nan(json, "val_loss")});
    } else {
      history.steps.add(step_of(json, step, unit));
    }
  }
  file.close();
  write_text(path, kept);
  formats::cut_events(folder, last);
  return history;
}

}  // namespace fourfold::train
