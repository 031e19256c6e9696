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

/// Calls `take` with every candidate and every placement of it.
template <class Take>
void try_all(const Config& config, const cluster::Cluster& cluster, const SearchSpec& spec,
             const Take& take) {
  for (const std::string& name : spec.strategies) {
    for (const Candidate& candidate :
         planner::candidates_of(config, config::strategy_of(name), spec.ranks, spec.freedom).list) {
      const Evaluation evaluation(config, candidate);
      for (const grid::Placement& placement :
           planner::placements_of(candidate.sizes, candidate.placement, cluster.gpus_per_host)) {
        take(evaluation.price(placement, cluster));
      }
    }
  }
}

/// The best of each grid, by dry runs of all candidates and all their placements.
std::vector<Predicted> everything(const Config& config, const cluster::Cluster& cluster,
                                  const SearchSpec& spec) {
  std::vector<Predicted> all;
  try_all(config, cluster, spec, [&](const Predicted& one) {
    if (one.memory > spec.memory) return;
    const auto same = std::find_if(all.begin(), all.end(), [&](const Predicted& other) {
      return other.candidate.strategy == one.candidate.strategy &&
             other.candidate.sizes == one.candidate.sizes;
    });
    if (same == all.end()) {
      all.push_back(one);
    } else if (one.step < same->step) {
      *same = one;
    }
  });
  std::stable_sort(all.begin(), all.end(),
                   [](const Predicted& a, const Predicted& b) { return a.step < b.step; });
  return all;
}

void expect_best(const std::vector<Predicted>& found, const std::vector<Predicted>& all,
                 std::size_t top) {
  ASSERT_EQ(found.size(), std::min(top, all.size()));
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_DOUBLE_EQ(found[i].step.value(), all[i].step.value())
        << i << ": " << to_string(found[i].candidate) << " and " << to_string(all[i].candidate);
  }
}

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

/// If a bound were too long, the search could discard the best plan.
/// Returns the share of the candidates whose bound is close.
double expect_bounds(const Config& config, const cluster::Cluster& cluster,
                     const SearchSpec& spec = spec_of(4)) {
  const planner::Workload load = planner::workload_of(config);
  planner::Profiles profiles(config);
  int all = 0;
  int tight = 0;
  try_all(config, cluster, spec, [&](const Predicted& one) {
    const Candidate& candidate = one.candidate;
    planner::Profile& profile = profiles.of(candidate);
    const Seconds bound = planner::lower_bound(profile, load, config, candidate, cluster);
    EXPECT_LE(planner::lower_bound(load, candidate, config.train.batch, cluster), one.step)
        << to_string(candidate);
    EXPECT_LE(bound, one.step) << to_string(candidate);
    if (candidate.checkpoint) {
      Candidate plain = candidate;
      plain.checkpoint = false;
      EXPECT_LE(planner::lower_bound(profiles.of(plain), load, config, candidate, cluster),
                one.step)
          << to_string(candidate);
    }
    if (!load.alike) {
      Candidate whole = candidate;
      whole.micro_batch = config.train.batch;
      planner::Profile& shared = profiles.of(whole);
      EXPECT_LE(planner::lower_bound(shared, load, config, candidate, cluster), one.step)
          << to_string(candidate);
      EXPECT_LE(planner::least_memory(shared, load, config, candidate), one.memory)
          << to_string(candidate);
    }
    EXPECT_LE(planner::least_memory(load, candidate), one.memory) << to_string(candidate);
    EXPECT_LE(planner::least_memory(profile, load, config, candidate), one.memory)
        << to_string(candidate);
    ++all;
    if (bound.value() > 0.8 * one.step.value()) ++tight;
  });
  return static_cast<double>(tight) / all;
}

TEST(Search, NothingIsShorterOrSmallerThanItsBounds) {
  EXPECT_GT(expect_bounds(config_of(), slow_cluster(1e7)), 0.25);
  EXPECT_GT(expect_bounds(config_of(), slow_cluster(1e9)), 0.25);
}

TEST(Search, NothingWithAHeavyHeadIsShorterOrSmallerThanItsBounds) {
  Config config = config_of();
  config.model.vocab = 1024;
  config.model.layers = 6;
  expect_bounds(config, slow_cluster(1e7));
  expect_bounds(config, slow_cluster(1e9));
}

TEST(Search, NothingOfALlamaIsShorterOrSmallerThanItsBounds) {
  Config config = config_of();
  config.model.kind = "llama";
  config.model.kv_heads = 2;
  config.model.hidden = 96;
  config.model.tied = false;
  config.train.precision = config::Precision::kBf16;
  cluster::Cluster cluster = slow_cluster(1e8);
  cluster.network.library = cluster::Library::kNccl;
  cluster.device.bf16 = FlopsPerSecond(20e9);
  EXPECT_GT(expect_bounds(config, cluster), 0.25);
}

/// Two levels, small enough for all its candidates.
Config unet_config() {
  Config config;
  config.model.kind = "unet";
  config.model.image = 4;
  config.model.colours = 1;
  config.model.channels = 8;
  config.model.multipliers = {1, 2};
  config.model.blocks = 1;
  config.model.attention = {2};
  config.model.heads = 4;
  config.model.groups = 4;
  config.train.batch = 8;
  config.train.micro_batch = 8;
  return config;
}

/// Its blocks are not alike, so that no part of it stands for the whole.
TEST(Search, NothingOfAUNetIsShorterOrSmallerThanItsBounds) {
  SearchSpec spec = spec_of(4);
  spec.strategies = {"4d"};
  spec.freedom.zero = false;
  expect_bounds(unet_config(), slow_cluster(1e9), spec);
  spec.freedom.activations = false;
  expect_bounds(unet_config(), slow_cluster(1e7), spec);
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

/// Each pass of a pipeline gathers weights along z, and part of that overlaps with the pass before.
TEST(Search, NoPipelineThatGathersIsShorterThanItsBounds) {
  Config config = config_of();
  config.model.width = 192;
  config.model.layers = 4;
  config.overlap.keep_mib = 0;
  SearchSpec spec = spec_of(8);
  spec.strategies = {"4d"};
  spec.freedom.grid = spec.freedom.zero = spec.freedom.activations = false;
  for (const grid::Sizes& sizes :
       {grid::Sizes{.z = 2, .data = 2, .pipe = 2}, grid::Sizes{.z = 4, .pipe = 2},
        grid::Sizes{.z = 2, .pipe = 4}}) {
    config.parallel.sizes = sizes;
    config.parallel.given = true;
    for (const std::int64_t window : {1, 4}) {
      config.overlap.window_mib = window;
      expect_bounds(config, slow_cluster(1e9), spec);
      expect_bounds(config, slow_cluster(1e8), spec);
    }
  }
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

/// A step of several passes without a pipeline: waits along x and y are in each of them, and those
/// along z may overlap with the pass before.
TEST(Search, NoPassesThatGatherAreShorterThanTheirBounds) {
  Config config = config_of();
  config.model.width = 192;
  config.model.layers = 4;
  config.train.batch = 32;
  SearchSpec spec = spec_of(8);
  spec.strategies = {"4d"};
  spec.freedom.grid = spec.freedom.zero = spec.freedom.activations = false;
  for (const grid::Sizes& sizes :
       {grid::Sizes{.y = 2, .z = 2, .data = 2}, grid::Sizes{.y = 2, .z = 4},
        grid::Sizes{.x = 2, .y = 2, .z = 2}, grid::Sizes{.z = 8}}) {
    config.parallel.sizes = sizes;
    config.parallel.given = true;
    for (const std::int64_t keep : {0, 4}) {
      config.overlap.keep_mib = keep;
      config.overlap.window_mib = 4 - keep / 2;
      expect_bounds(config, slow_cluster(1e9), spec);
      expect_bounds(config, slow_cluster(1e7), spec);
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
