// Plans that are written come back as they were; other files are refused with one line.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/read_plans.hpp"

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/planner/plan_text.hpp"

namespace fourfold::test {
namespace {

using planner::Candidate;

/// An answer with two plans that differ in everything.
planner::Answer two_plans() {
  planner::Answer answer;
  answer.question.config.model.vocab = 96;
  answer.question.ranks = 12;
  answer.question.cluster.device.f32 = FlopsPerSecond(1e9);
  planner::Predicted plain;
  plain.candidate.sizes = {.x = 2, .y = 3, .z = 2};
  plain.candidate.micro_batch = 8;
  plain.step = Seconds(0.125);
  plain.memory = Bytes(4096);
  planner::Predicted other;
  other.candidate = {.strategy = "deepspeed3d",
                     .sizes = {.y = 2, .data = 3, .pipe = 2},
                     .placement = grid::parse_placement("y,x,pipe,data,z"),
                     .activations = config::Activations::kReplicated,
                     .checkpoint = true,
                     .micro_batch = 2,
                     .chunks = 2,
                     .zero = 0};
  other.step = Seconds(3.5);
  answer.found.plans = {plain, other};
  return answer;
}

std::string refusal(const std::string& text) {
  try {
    planner::parse_plans(text, "plans.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ReadPlans, PlansComeBackAsTheyWereWritten) {
  const planner::Answer answer = two_plans();
  const std::vector<planner::ReadPlan> read =
      planner::parse_plans(planner::to_json(answer), "plans.json");
  ASSERT_EQ(read.size(), 2U);
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].candidate, answer.found.plans[i].candidate);
    EXPECT_EQ(read[i].step, answer.found.plans[i].step);
    EXPECT_EQ(read[i].memory, answer.found.plans[i].memory);
  }
}

TEST(ReadPlans, OtherFilesAreRefused) {
  const std::string none = "plans.json has no plans; fourfold plan --json plans.json writes them";
  for (const std::string text : {"", "[", "[]", "{}", "{\"plans\": 3}", "{\"plans\": []}"}) {
    EXPECT_EQ(refusal(text), none) << text;
  }
}

TEST(ReadPlans, AWrongValueIsNamed) {
  const std::string good = planner::to_json(two_plans());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t place = text.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    return refusal(text.replace(place, from.size(), to));
  };
  EXPECT_EQ(with("\"x\": 2", "\"x\": 0"),
            "plans.json: plan 1 x is 0, and must be from 1 to 2147483647");
  EXPECT_EQ(with("\"x\": 2", "\"x\": 99999999999"),
            "plans.json: plan 1 x is 99999999999, and must be from 1 to 2147483647");
  EXPECT_EQ(with("\"micro_batch\": 8", "\"micro_batch\": 1.5"),
            "plans.json: plan 1 micro_batch is not a whole number");
  EXPECT_EQ(with("\"micro_batch\": 2", "\"micro\": 2"), "plans.json: plan 2 has no micro_batch");
  EXPECT_EQ(with("replicated", "random"),
            "plans.json: plan 2 has activations random; there are sharded and replicated");
  EXPECT_EQ(with("\"checkpoint_activations\": true", "\"checkpoint_activations\": 1"),
            "plans.json: plan 2 checkpoint_activations is not true or false");
  EXPECT_EQ(with("\"step_seconds\": 3.5", "\"step_seconds\": -3.5"),
            "plans.json: plan 2 step_seconds is not a time");
  EXPECT_EQ(with("deepspeed3d", "5d"),
            "plans.json: plan 2 has the strategy 5d, which does not exist");
  EXPECT_NE(with("y,x,pipe,data,z", "y,y").find("plans.json: plan 2 cannot be used: "),
            std::string::npos);
}

}  // namespace
}  // namespace fourfold::test
