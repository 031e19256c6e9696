// The search against trying everything, on spaces that are small enough for that.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/search.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "fourfold/base/check.hpp"
#include "fourfold/model/stages.hpp"
#include "fourfold/planner/bound.hpp"
#include "fourfold/planner/pipeline_time.hpp"
#include "fourfold/planner/placements.hpp"
#include "fourfold/planner/plan_text.hpp"
#include "fourfold/train/setup.hpp"

#include "tests/planner/small_search.hpp"

namespace fourfold::test {
namespace {

TEST(Search, FindsTheFastestOfAll) {
  const Config config = config_of();
  for (const double links : {1e7, 1e9}) {
    const cluster::Cluster cluster = slow_cluster(links);
    SearchSpec spec = spec_of(4);
    const planner::SearchResult found = planner::search(config, cluster, spec);
    const std::vector<Predicted> all = everything(config, cluster, spec);
    expect_best(found.plans, all, spec.top);
    EXPECT_LT(found.evaluated, found.considered);
    EXPECT_EQ(found.below_bound, 0);
  }
}

/// Not only powers of two, and stages of a block each.
TEST(Search, FindsTheFastestOfSixRanks) {
  Config config = config_of();
  config.model.heads = 6;
  config.model.layers = 3;
  config.train.batch = config.train.micro_batch = 12;
  const cluster::Cluster cluster = slow_cluster(1e8);
  SearchSpec spec = spec_of(6);
  const planner::SearchResult found = planner::search(config, cluster, spec);
  expect_best(found.plans, everything(config, cluster, spec), spec.top);
  EXPECT_LT(found.evaluated, found.considered);
  EXPECT_EQ(found.below_bound, 0);
}

/// Then many candidates do not fit, among them the fastest.
TEST(Search, FindsTheFastestThatFits) {
  const Config config = config_of();
  const cluster::Cluster cluster = slow_cluster(1e8);
  SearchSpec spec = spec_of(4);
  const Predicted best = planner::search(config, cluster, spec).plans.front();
  spec.memory = Bytes(best.memory.value() * 7 / 10);
  const planner::SearchResult found = planner::search(config, cluster, spec);
  ASSERT_FALSE(found.plans.empty());
  EXPECT_GT(found.plans.front().step, best.step);
  expect_best(found.plans, everything(config, cluster, spec), spec.top);
  EXPECT_EQ(found.below_bound, 0);
}

/// A later search needs no dry runs for what is known.
TEST(Search, SharesPredictions) {
  const Config config = config_of();
  const cluster::Cluster cluster = slow_cluster(1e8);
  SearchSpec spec = spec_of(4);
  spec.threads = 1;
  spec.known = std::make_shared<planner::Predictions>(config, cluster);
  const planner::SearchResult first = planner::search(config, cluster, spec);
  const planner::SearchResult second = planner::search(config, cluster, spec);
  EXPECT_GT(first.evaluated, 0);
  EXPECT_EQ(second.evaluated, 0);
  expect_best(second.plans, first.plans, spec.top);
  // Megatron's grids are among those of the 4-D algorithm.
  spec.strategies = {"megatron"};
  spec.top = 1;
  const planner::SearchResult named = planner::search(config, cluster, spec);
  spec.known = nullptr;
  const planner::SearchResult alone = planner::search(config, cluster, spec);
  EXPECT_LT(named.evaluated, alone.evaluated);
  expect_best(named.plans, alone.plans, spec.top);
  EXPECT_EQ(named.plans.front().candidate.strategy, "megatron");
}

TEST(Search, FindsTheFastestOfAUNet) {
  const Config config = unet_config();
  const cluster::Cluster cluster = slow_cluster(1e8);
  SearchSpec spec = spec_of(4);
  spec.strategies = {"4d"};
  spec.freedom.zero = spec.freedom.activations = false;
  const planner::SearchResult found = planner::search(config, cluster, spec);
  expect_best(found.plans, everything(config, cluster, spec), spec.top);
  EXPECT_EQ(found.below_bound, 0);
}

/// Profiles leave out what is done along some axes.
TEST(Profile, KeepsTheOrderOfWhatIsLeft) {
  using schedule::Op;
  schedule::Schedule step;
  const auto gather = [&](grid::Axis axis) {
    return step.issue({.op = Op::kAllGather, .count = 8}, axis, 2, 0, 0);
  };
  step.wait(-1);
  const std::int64_t along_x = gather(grid::Axis::kX);
  step.compute({.name = "linear"});
  const std::int64_t along_data = gather(grid::Axis::kData);
  step.wait(along_x);
  step.compute({.name = "adamw", .phase = schedule::Phase::kUpdate});
  step.wait(along_data);
  gather(grid::Axis::kX);

  schedule::Schedule expected;
  expected.wait(-1);
  expected.issue({.op = Op::kAllGather, .count = 8}, grid::Axis::kX, 2, 0, 0);
  expected.compute({.name = "linear"});
  expected.wait(0);
  expected.issue({.op = Op::kAllGather, .count = 8}, grid::Axis::kX, 2, 0, 0);
  EXPECT_EQ(planner::without(step,
                             [](const schedule::Issue& issue) {
                               return issue.axes.contains(grid::Axis::kData);
                             }),
            expected);
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

/// The last place has few blocks where the head costs as much as many of them. A part of the step
/// is cut as the whole step is.
TEST(Search, PartsOfAStepAreCutAsTheWhole) {
  Config config = config_of();
  config.model.vocab = 2048;
  config.model.layers = 16;
  config.train.batch = 16;
  for (const double links : {1e7, 1e8}) {
    const cluster::Cluster cluster = slow_cluster(links);
    for (const int chunks : {1, 2}) {
      for (const grid::Sizes& sizes :
           {grid::Sizes{.y = 2, .pipe = 2}, grid::Sizes{.data = 2, .pipe = 4}}) {
        Candidate candidate;
        candidate.sizes = sizes;
        candidate.chunks = chunks;
        candidate.micro_batch = 4;
        const planner::Workload load = planner::workload_of(config);
        const std::vector<std::int64_t> stages =
            model::balanced(16, sizes.pipe * chunks, 0, load.head_in_blocks);
        const auto [least, most] = std::minmax_element(stages.begin(), stages.end());
        EXPECT_GT(*most, *least);
        const planner::Recorded whole = planner::record(config, candidate, {*least, 4, sizes.pipe});
        const Seconds expected = plan::replay(whole.places, grid::Grid(sizes), cluster).step;
        const Predicted found =
            Evaluation(config, candidate).price(grid::kDefaultPlacement, cluster);
        EXPECT_NEAR(found.step / expected, 1, 0.06) << to_string(candidate) << ", links " << links;
        EXPECT_NEAR(found.memory / whole.memory, 1, 0.03) << to_string(candidate);
        planner::Profiles profiles(config);
        EXPECT_LE(planner::lower_bound(profiles.of(candidate), load, config, candidate, cluster),
                  expected)
            << to_string(candidate) << ", links " << links;
      }
    }
  }
}

/// Deep pipelines are predicted from shorter ones, also where sends take as long as compute and
/// where some places are on one host and others are not.
TEST(Search, ShortPipelinesGiveDeepOnes) {
  Config config = config_of();
  config.model.layers = 16;
  config.train.batch = 32;
  const auto check = [&](const grid::Sizes& sizes, int chunks, std::int64_t micro_batch,
                         double links) {
    const cluster::Cluster cluster = slow_cluster(links);
    Candidate candidate;
    candidate.sizes = sizes;
    candidate.chunks = chunks;
    candidate.micro_batch = micro_batch;
    const std::int64_t in_stage = config.model.layers / sizes.pipe / chunks;
    const planner::Recorded whole = planner::record(
        config, candidate, {in_stage, config.train.batch / micro_batch, sizes.pipe});
    const Seconds expected = plan::replay(whole.places, grid::Grid(sizes), cluster).step;
    const Predicted found = Evaluation(config, candidate).price(grid::kDefaultPlacement, cluster);
    EXPECT_NEAR(found.step / expected, 1, 0.05) << to_string(candidate) << ", links " << links;
    EXPECT_NEAR(found.memory / whole.memory, 1, 0.05) << to_string(candidate);
  };
  for (const double links : {1e7, 1e8}) {
    check({.pipe = 4}, 1, 2, links);
    check({.pipe = 8}, 1, 2, links);
    check({.pipe = 8}, 2, 2, links);
    check({.pipe = 16}, 1, 2, links);
  }
  check({.y = 2, .pipe = 8}, 1, 2, 1e8);
  check({.y = 2, .pipe = 8}, 2, 2, 1e8);
}

/// With few passes not all chunks have come back while the most passes are open.
TEST(Search, ShortPipelinesGiveTheMemoryOfDeepOnes) {
  Config config = config_of();
  config.model.width = 192;
  config.model.layers = 32;
  config.train.batch = 32;
  config.overlap.window_mib = 1;
  const planner::Workload load = planner::workload_of(config);
  planner::Profiles profiles(config);
  for (const std::int64_t micro_batch : {4, 2}) {
    for (const int z : {1, 2}) {
      for (const int chunks : {1, 2, 4}) {
        Candidate candidate;
        candidate.sizes = {.y = 2, .z = z, .pipe = 8};
        candidate.chunks = chunks;
        candidate.micro_batch = micro_batch;
        const std::int64_t in_stage = config.model.layers / 8 / chunks;
        const Bytes whole =
            planner::record(config, candidate, {in_stage, config.train.batch / micro_batch, 8}, 1)
                .memory;
        const Bytes found = Evaluation(config, candidate).memory();
        EXPECT_NEAR(found / whole, 1.0, 0.05) << to_string(candidate);
        const Bytes least = planner::least_memory(profiles.of(candidate), load, config, candidate);
        EXPECT_LE(least, whole) << to_string(candidate);
        EXPECT_GT(least / whole, 0.5) << to_string(candidate);
      }
    }
  }
}

/// Without sends, and with as many passes as fill the pipeline.
TEST(PipelineTime, IsThatOfTheUnits) {
  using planner::UnitTime;
  const auto time = [](int places, int chunks, std::int64_t passes, const UnitTime& unit) {
    return planner::pipeline_time(std::vector<UnitTime>(static_cast<std::size_t>(places), unit),
                                  chunks, passes);
  };
  EXPECT_DOUBLE_EQ(time(1, 1, 5, {1, 2, 9}), 15);
  EXPECT_DOUBLE_EQ(time(4, 1, 8, {1, 2, 0}), (8 + 3) * 3);
  EXPECT_DOUBLE_EQ(time(4, 2, 8, {1, 2, 0}), (2 * 8 + 3) * 3);
  // As many passes as there are places wait for sends there and back. The second sends are taken
  // only when the receiver has begun the pass before.
  EXPECT_DOUBLE_EQ(time(2, 1, 2, {1, 2, 0.25}), (2 + 1) * 3 + 2 * 0.25);
  EXPECT_DOUBLE_EQ(time(2, 1, 4, {1, 2, 0.25}), (4 + 1) * 3 + 2 * 2 * 0.25);
  EXPECT_GE(time(4, 1, 8, {1, 2, 0.25}), (8 + 3) * 3 + 2 * 2 * 3 * 0.25);
  // The last place has more to do: the others wait for it anyway.
  EXPECT_DOUBLE_EQ(planner::pipeline_time({{1, 2, 0.25}, {2, 4, 0.25}}, 1, 8), 1.25 + 8 * 6 + 2.25);
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

/// Weights that travel along data in several segments, most of them behind compute.
TEST(Search, PartsOfAStepHaveTheOverlapOfTheWhole) {
  Config config = config_of();
  config.model.width = 256;
  config.model.layers = 8;
  config.train.batch = 16;
  config.overlap.segment_mib = 4;
  const cluster::Cluster cluster = slow_cluster(2e8);
  for (const grid::Sizes& sizes : {grid::Sizes{.data = 4}, grid::Sizes{.y = 2, .data = 4}}) {
    Candidate candidate;
    candidate.sizes = sizes;
    candidate.micro_batch = config.train.batch;
    const planner::Recorded whole = planner::record(config, candidate, {config.model.layers, 1, 1});
    const Seconds expected = plan::replay(whole.places, grid::Grid(sizes), cluster).step;
    const Predicted found = Evaluation(config, candidate).price(grid::kDefaultPlacement, cluster);
    // Segments end between layers, so that parts are not quite alike.
    EXPECT_NEAR(found.step / expected, 1, 0.06) << sizes;
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
  EXPECT_EQ(planner::larger_than_it_is(question.cluster, question.ranks),
            "small has 8 devices (4 hosts with 2 each); this is for a larger one of its kind");
  EXPECT_EQ(planner::larger_than_it_is(question.cluster, 8), "");
}

TEST(Plan, TakesTheLowerOfTwoLimitsOfMemory) {
  planner::Question question;
  question.config = config_of();
  question.cluster = slow_cluster(1e8);
  question.ranks = 2;
  const Bytes usable = question.cluster.device.usable();
  question.config.device.memory_gib = 1e6;
  EXPECT_EQ(planner::answer(question).question.search.memory, usable);
  question.config.device.memory_gib = 0.5;
  ASSERT_LT(Bytes(1 << 29), usable);
  EXPECT_EQ(planner::answer(question).question.search.memory, Bytes(1 << 29));
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
