// The plan that a run takes, and what it does where nothing can be planned.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/choose.hpp"

#include <gtest/gtest.h>

#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/planner/hosts.hpp"
#include "fourfold/planner/predict.hpp"
#include "fourfold/train/settle.hpp"

#include "tests/planner/small_search.hpp"

namespace fourfold::test {
namespace {

Predicted plan_of(double compute, double exposed) {
  Predicted plan;
  plan.compute = Seconds(compute);
  plan.exposed = Seconds(exposed);
  plan.step = Seconds(compute + exposed);
  return plan;
}

/// Waits count for a quarter more than predicted.
TEST(Choose, TakesTheSurestOfClosePlans) {
  const std::vector<Predicted> close = {plan_of(6, 4), plan_of(9.5, 0.5), plan_of(10.5, 0)};
  EXPECT_EQ(&planner::surest(close), &close[1]);
  const std::vector<Predicted> far = {plan_of(6, 4), plan_of(11.5, 0)};
  EXPECT_EQ(&planner::surest(far), &far[0]) << "the other one is slower even if waits are longer";
  const std::vector<Predicted> equal = {plan_of(8, 2), plan_of(8, 2)};
  EXPECT_EQ(&planner::surest(equal), &equal[0]);
}

TEST(Hosts, AreUnevenWithOtherNumbersOfRanksOrOutOfOrder) {
  using planner::uneven_hosts;
  using Names = std::vector<std::string>;
  EXPECT_EQ(uneven_hosts(Names{"a"}), "");
  EXPECT_EQ(uneven_hosts(Names{"a", "a", "b", "b"}), "");
  EXPECT_EQ(uneven_hosts(Names{"a", "a", "a", "a", "b", "b"}),
            "host a has 4 ranks, and host b has 2");
  EXPECT_EQ(uneven_hosts(Names{"a", "b", "b"}), "host a has 1 rank, and host b has 2");
  EXPECT_EQ(uneven_hosts(Names{"a", "a", "b", "b", "c"}), "host a has 2 ranks, and host c has 1");
  EXPECT_EQ(uneven_hosts(Names{"a", "b", "a", "b"}),
            "the ranks of host a do not follow each other: rank 1 is on b, and rank 2 is on a "
            "again");
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

/// Four ranks on a host and two on the other one.
TEST(Choose, TakesTheFewestBytesOnUnevenHosts) {
  comm::World world = comm::recording::open(0, 6, 4);
  Config config = config_of();
  config.model.heads = 6;
  config.train.batch = config.train.micro_batch = 12;
  Config expected = config;
  train::settle_grid(expected, 6, train::RankMemory::unlimited());
  std::vector<std::string> said;
  train::Console console;
  console.say = [&](const std::string& line) { said.push_back(line); };
  std::optional<train::Prediction> predicted;
  const std::string chosen = planner::choose(world, config, predicted, console);
  EXPECT_EQ(config.parallel.strategy, "4d");
  EXPECT_EQ(config.parallel.sizes, expected.parallel.sizes);
  EXPECT_TRUE(has(chosen, "that sends the fewest bytes a step")) << chosen;
  ASSERT_EQ(said.size(), 1U);
  EXPECT_TRUE(has(said[0], "has 4 ranks, and host ")) << said[0];
  EXPECT_TRUE(has(said[0], ", so the grid is chosen by the bytes that a rank sends")) << said[0];
  ASSERT_TRUE(predicted.has_value());
  EXPECT_TRUE(has(predicted->missing, "the time of the step was not predicted, since host "))
      << predicted->missing;
  EXPECT_FALSE(has(predicted->missing, "calibrate")) << "that is refused there, too";
  EXPECT_EQ(predicted->step, Seconds());
  EXPECT_EQ(predicted->memory, Evaluation(config, planner::candidate_of(config)).memory());
  EXPECT_THROW(planner::ranks_per_host(world), ConfigError);
}

/// A grid that is kept has candidates of the strategies that have it, for its ranks.
TEST(Candidates, OfAGridThatIsKept) {
  Config config = config_of();
  config.parallel.sizes = {.x = 4};
  planner::Freedom freedom;
  freedom.grid = false;
  const auto count = [&](const char* strategy, int ranks) {
    return planner::candidates_of(config, config::strategy_of(strategy), ranks, freedom)
        .list.size();
  };
  EXPECT_GT(count("4d", 4), 0U);
  EXPECT_EQ(count("4d", 2), 0U);
  EXPECT_EQ(count("4d", 8), 0U);
  for (const char* other : {"ddp", "zero3", "megatron", "summa2d", "3d", "deepspeed3d"}) {
    EXPECT_EQ(count(other, 4), 0U) << other;
  }
}

}  // namespace
}  // namespace fourfold::test
