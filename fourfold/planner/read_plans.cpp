// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/read_plans.hpp"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/whole_file.hpp"

namespace fourfold::planner {

namespace {

using Json = nlohmann::json;

/// A value of a plan. Throws ConfigError if it is missing or of another kind.
class PlanReader {
 public:
  PlanReader(const Json& plan, std::string where) : plan_(&plan), where_(std::move(where)) {
    if (!plan.is_object()) fail("is not an object");
  }

  std::string text(const char* key) const {
    const Json& value = at(*plan_, key);
    if (!value.is_string()) fail(concat(key, " is not a text"));
    return value.get<std::string>();
  }

  bool flag(const char* key) const {
    const Json& value = at(*plan_, key);
    if (!value.is_boolean()) fail(concat(key, " is not true or false"));
    return value.get<bool>();
  }

  template <class Number>
  Number whole(const char* key, std::int64_t least) const {
    return whole_of<Number>(*plan_, key, least);
  }

  grid::Sizes sizes() const {
    const Json& grid = at(*plan_, "grid");
    if (!grid.is_object()) fail("grid is not an object");
    grid::Sizes sizes;
    sizes.x = whole_of<int>(grid, "x", 1);
    sizes.y = whole_of<int>(grid, "y", 1);
    sizes.z = whole_of<int>(grid, "z", 1);
    sizes.data = whole_of<int>(grid, "data", 1);
    sizes.pipe = whole_of<int>(grid, "pipe", 1);
    return sizes;
  }

  Seconds seconds(const char* key) const {
    const Json& value = at(*plan_, key);
    if (!value.is_number() || value.get<double>() < 0) fail(concat(key, " is not a time"));
    return Seconds(value.get<double>());
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw ConfigError(concat(where_, " ", what));
  }

 private:
  const Json& at(const Json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) fail(concat("has no ", key));
    return *found;
  }

  template <class Number>
  Number whole_of(const Json& object, const char* key, std::int64_t least) const {
    const Json& value = at(object, key);
    if (!value.is_number_integer()) fail(concat(key, " is not a whole number"));
    const auto number = value.get<std::int64_t>();
    if (number < least || number > std::numeric_limits<Number>::max()) {
      fail(concat(key, " is ", number, ", and must be from ", least, " to ",
                  std::numeric_limits<Number>::max()));
    }
    return static_cast<Number>(number);
  }

  const Json* plan_;
  std::string where_;
};

ReadPlan plan_of(const Json& json, const std::string& where) {
  const PlanReader read(json, where);
  ReadPlan plan;
  Candidate& candidate = plan.candidate;
  candidate.strategy = read.text("strategy");
  const auto& known = config::strategies();
  if (std::none_of(known.begin(), known.end(),
                   [&](const config::Strategy& one) { return one.name == candidate.strategy; })) {
    read.fail(concat("has the strategy ", candidate.strategy, ", which does not exist"));
  }
  try {
    candidate.placement = grid::parse_placement(read.text("placement"));
  } catch (const ConfigError& error) {
    read.fail(concat("cannot be used: ", error.what()));
  }
  candidate.sizes = read.sizes();
  const std::string activations = read.text("activations");
  if (activations == to_string(config::Activations::kReplicated)) {
    candidate.activations = config::Activations::kReplicated;
  } else if (activations != to_string(config::Activations::kSharded)) {
    read.fail(concat("has activations ", activations, "; there are sharded and replicated"));
  }
  candidate.checkpoint = read.flag("checkpoint_activations");
  candidate.micro_batch = read.whole<std::int64_t>("micro_batch", 1);
  candidate.chunks = read.whole<int>("chunks", 1);
  candidate.zero = read.whole<int>("zero", 0);
  plan.step = read.seconds("step_seconds");
  plan.memory = Bytes(read.whole<std::int64_t>("memory_bytes", 0));
  return plan;
}

}  // namespace

std::vector<ReadPlan> parse_plans(const std::string& text, const std::string& file) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object() || !json.contains("plans") ||
      !json["plans"].is_array() || json["plans"].empty()) {
    throw ConfigError(concat(file, " has no plans; fourfold plan --json ", file, " writes them"));
  }
  std::vector<ReadPlan> plans;
  for (const Json& one : json["plans"]) {
    plans.push_back(plan_of(one, concat(file, ": plan ", plans.size() + 1)));
  }
  return plans;
}

std::vector<ReadPlan> read_plans(const std::string& file) {
  constexpr std::int64_t kLargest = 64 << 20;  // far more than all plans of a cluster need
  return parse_plans(data::read_whole(file, kLargest), file);
}

}  // namespace fourfold::planner
