// The search against trying everything, on spaces that are small enough for that.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/search.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "fourfold/base/check.hpp"
#include "fourfold/planner/bound.hpp"
#include "fourfold/planner/plan_text.hpp"
#include "fourfold/train/setup.hpp"

#include "tests/cluster/small_cluster.hpp"

namespace fourfold::test {
namespace {

using config::Config;
using planner::Candidate;
using planner::Evaluation;
using planner::Predicted;
using planner::SearchSpec;

Config config_of() {
  Config config;
  config.model.vocab = 96;
  config.model.width = 48;
  config.model.heads = 4;
  config.model.layers = 2;
  config.model.context = 16;
  config.train.batch = 8;
  config.train.micro_batch = 8;
  return config;
}

/// Slow enough that communication, latency and compute all matter.
cluster::Cluster slow_cluster(double links) {
  cluster::Cluster cluster = small_cluster();
  cluster.gpus_per_host = 2;
  cluster.device.f32 = FlopsPerSecond(20e9);
  cluster.network.nic_bandwidth = BytesPerSecond(links);
  cluster.network.inside_bandwidth = BytesPerSecond(10 * links);
  cluster.network.library = cluster::Library::kFourfold;
  return cluster;
}

SearchSpec spec_of(int ranks) {
  SearchSpec spec;
  spec.ranks = ranks;
  spec.memory = Bytes(std::int64_t{1} << 40);
  spec.top = 5;
  return spec;
}

/// The best of each grid, by dry runs of all candidates and all their placements.
std::vector<Predicted> everything(const Config& config, const cluster::Cluster& cluster,
                                  const SearchSpec& spec) {
  std::vector<Predicted> all;
  for (const std::string& name : spec.strategies) {
    for (const Candidate& candidate :
         planner::candidates_of(config, config::strategy_of(name), spec.ranks).list) {
      const Evaluation evaluation(config, candidate);
      std::optional<Predicted> best;
      for (const grid::Placement& placement :
           planner::placements_of(candidate.sizes, candidate.placement, cluster.gpus_per_host)) {
        const Predicted one = evaluation.price(placement, cluster);
        if (!best || one.step < best->step) best = one;
      }
      const auto same = std::find_if(all.begin(), all.end(), [&](const Predicted& other) {
        return other.candidate.strategy == name && other.candidate.sizes == candidate.sizes;
      });
      if (same == all.end()) {
        all.push_back(*best);
      } else if (best->step < same->step) {
        *same = *best;
      }
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Predicted& a, const Predicted& b) { return a.step < b.step; });
  return all;
}

TEST(Search, FindsTheFastestOfAll) {
  const Config config = config_of();
  for (const double links : {1e7, 1e9}) {
    const cluster::Cluster cluster = slow_cluster(links);
    const SearchSpec spec = spec_of(4);
    const std::vector<Predicted> all = everything(config, cluster, spec);
    const planner::SearchResult found = planner::search(config, cluster, spec);
    ASSERT_EQ(found.plans.size(), spec.top);
    for (std::size_t i = 0; i < spec.top; ++i) {
      EXPECT_DOUBLE_EQ(found.plans[i].step.value(), all[i].step.value())
          << i << ": " << to_string(found.plans[i].candidate) << " and "
          << to_string(all[i].candidate);
    }
    EXPECT_LT(found.evaluated, found.considered);
  }
}

/// If a bound were too long, the search could discard the best plan.
TEST(Search, NoReplayIsShorterThanItsBound) {
  const Config config = config_of();
  const cluster::Cluster cluster = slow_cluster(1e7);
  Candidate plain;
  plain.micro_batch = config.train.batch;
  const planner::Workload load =
      planner::workload_of(train::recipe_of(planner::apply(config, plain)));
  int tight = 0;
  for (const Predicted& one : everything(config, cluster, spec_of(4))) {
    const Seconds bound = planner::lower_bound(load, one.candidate, config.train.batch, cluster);
    EXPECT_LE(bound, one.step) << to_string(one.candidate);
    EXPECT_LE(planner::least_memory(load, one.candidate), one.memory) << to_string(one.candidate);
    if (bound.value() > 0.5 * one.step.value()) ++tight;
  }
  EXPECT_GT(tight, 0);
}

TEST(Search, DoesNotDependOnTheNumberOfThreads) {
  const Config config = config_of();
  const cluster::Cluster cluster = slow_cluster(1e8);
  SearchSpec spec = spec_of(8);
  spec.strategies = {"4d"};
  spec.freedom.checkpoint = spec.freedom.zero = false;
  spec.threads = 1;
  const planner::SearchResult one = planner::search(config, cluster, spec);
  spec.threads = 3;
  const planner::SearchResult three = planner::search(config, cluster, spec);
  ASSERT_EQ(one.plans.size(), three.plans.size());
  for (std::size_t i = 0; i < one.plans.size(); ++i) {
    EXPECT_TRUE(one.plans[i].candidate == three.plans[i].candidate) << i;
    EXPECT_EQ(one.plans[i].step, three.plans[i].step);
  }
}

/// A large step is predicted from parts of it: the result is that of the whole step.
TEST(Search, PartsOfAStepGiveTheWhole) {
  Config config = config_of();
  config.model.layers = 8;
  config.train.batch = 48;
  const cluster::Cluster cluster = slow_cluster(1e8);
  for (const grid::Sizes& sizes : {grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.z = 2, .data = 2},
                                   grid::Sizes{.y = 2, .pipe = 2}}) {
    Candidate candidate;
    candidate.sizes = sizes;
    candidate.micro_batch = 4;
    const std::int64_t in_stage = config.model.layers / sizes.pipe;
    const planner::Recorded whole = planner::record(
        config, candidate, {in_stage, config.train.batch / candidate.micro_batch, sizes.pipe});
    const Seconds expected = plan::replay(whole.places, grid::Grid(sizes), cluster).step;
    const Predicted found = Evaluation(config, candidate).price(grid::kDefaultPlacement, cluster);
    EXPECT_NEAR(found.step / expected, 1, 0.02) << sizes;
    EXPECT_NEAR(found.memory / whole.memory, 1, 0.03) << sizes;
  }
}

TEST(Search, PlacementsDifferInWhatCrossesHosts) {
  const grid::Placement first = grid::kDefaultPlacement;
  EXPECT_EQ(planner::placements_of({.x = 8}, first, 4).size(), 1U);
  EXPECT_EQ(planner::placements_of({.x = 2, .data = 4}, first, 4).size(), 2U);
  EXPECT_EQ(planner::placements_of({.x = 2, .data = 4}, first, 8).size(), 2U);  // other distances
  EXPECT_EQ(planner::placements_of({.x = 2, .y = 2, .z = 2}, first, 1).front(), first);
}

std::string refusal(planner::Question question) {
  try {
    planner::check_found(planner::answer(std::move(question)));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "a plan";
}

TEST(Search, SaysWhatIsMissing) {
  planner::Question question;
  question.config = config_of();
  question.cluster = slow_cluster(1e8);
  question.ranks = 4;
  EXPECT_EQ(refusal(question), "a plan");
  question.cluster.device.memory = Bytes(100'000);
  const std::string little = refusal(question);
  EXPECT_NE(little.find("nothing fits: "), std::string::npos) << little;
  EXPECT_NE(little.find(" are missing; about "), std::string::npos) << little;
  question.cluster = slow_cluster(1e8);
  question.ranks = 7;
  EXPECT_NE(refusal(question).find("no grid of 7 ranks fits this model with a batch of 8"),
            std::string::npos)
      << refusal(question);
  question.ranks = 16;
  question.cluster.hosts = 4;
  EXPECT_EQ(refusal(question), "--gpus 16: small has 8 (4 hosts with 2 each)");
}

TEST(Plan, IsTextJsonAndAPage) {
  planner::Question question;
  question.config = config_of();
  question.cluster = slow_cluster(1e8);
  question.ranks = 4;
  question.tokens = 1e9;
  const planner::Answer answer = planner::answer(question, {"ddp", "megatron", "3d"});
  const std::string text = planner::to_text(answer);
  EXPECT_NE(text.find("The second is "), std::string::npos) << text;
  EXPECT_NE(text.find("3d has no grid of 4 ranks"), std::string::npos) << text;
  const std::string json = planner::to_json(answer);
  for (const char* key :
       {"\"plans\"", "\"step_seconds\"", "\"memory_bytes\"", "\"mfu\"", "\"grid\""}) {
    EXPECT_NE(json.find(key), std::string::npos) << key;
  }
  const std::string page = planner::to_page(answer);
  EXPECT_NE(page.find("id=\"ranking\""), std::string::npos);
  EXPECT_NE(page.find("The best plan, as predicted"), std::string::npos);
}

}  // namespace
}  // namespace fourfold::test
