// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "fourfold/planner/plan_text.hpp"

namespace fourfold::planner {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Answer& answer, const Predicted& plan) {
  const Candidate& c = plan.candidate;
  const Figures figures = answer.figures_of(plan);
  Json json = {{"strategy", c.strategy},
               {"grid",
                {{"x", c.sizes.x},
                 {"y", c.sizes.y},
                 {"z", c.sizes.z},
                 {"data", c.sizes.data},
                 {"pipe", c.sizes.pipe}}},
               {"placement", grid::to_string(c.placement)},
               {"activations", to_string(c.activations)},
               {"checkpoint_activations", c.checkpoint},
               {"micro_batch", c.micro_batch},
               {"chunks", c.chunks},
               {"zero", c.zero},
               {"step_seconds", plan.step.value()},
               {"compute_seconds", plan.compute.value()},
               {"exposed_seconds", plan.exposed.value()},
               {"memory_bytes", plan.memory.value()},
               {"mfu", figures.mfu},
               {answer.unit() + "_per_second", figures.units_a_second}};
  json["exposed_by_axes"] = Json::object();
  for (const auto& [axes, time] : plan.exposed_by_axes)
    json["exposed_by_axes"][axes] = time.value();
  for (std::size_t i = 0; i < tensor::kPlannedClasses; ++i) {
    const auto kind = static_cast<tensor::MemoryClass>(i);
    json["memory"][std::string(to_string(kind))] = plan.by_class[kind].value();
  }
  if (answer.question.tokens > 0) {
    json["days"] = figures.days;
    if (figures.price > 0) json["price"] = figures.price;
  }
  return json;
}

}  // namespace

std::string to_json(const Answer& answer) {
  const Question& question = answer.question;
  Json json = {{"cluster", question.cluster.name},
               {"gpus", question.ranks},
               {"gpus_per_host", question.cluster.gpus_per_host},
               {"parameters", answer.parameters},
               {"model_flops", answer.model_flops.value()},
               {answer.unit() + "_per_step", answer.units},
               {"memory_limit_bytes", question.search.memory.value()},
               {"candidates", answer.found.considered},
               {"evaluated", answer.found.evaluated}};
  json["plans"] = Json::array();
  for (const Predicted& plan : answer.found.plans) json["plans"].push_back(json_of(answer, plan));
  if (!answer.by_name.empty()) {
    json["strategies"] = Json::array();
    for (const Answer::ByName& one : answer.by_name) {
      Json entry = {{"strategy", one.strategy}};
      if (one.plan) {
        entry = json_of(answer, *one.plan);
      } else {
        entry["refused"] = one.why;
      }
      json["strategies"].push_back(std::move(entry));
    }
  }
  if (answer.explained) json["explained"] = json_of(answer, *answer.explained);
  json["rejected"] = Json::object();
  for (const auto& [reason, count] : answer.found.rejected) json["rejected"][reason] = count;
  return json.dump(2) + "\n";
}

}  // namespace fourfold::planner
