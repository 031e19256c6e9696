// Nothing is shorter or smaller than what the planner takes for its least.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/bound.hpp"

#include "tests/planner/small_search.hpp"

namespace fourfold::test {
namespace {

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

TEST(Bounds, NothingIsShorterOrSmallerThanItsBounds) {
  EXPECT_GT(expect_bounds(config_of(), slow_cluster(1e7)), 0.25);
  EXPECT_GT(expect_bounds(config_of(), slow_cluster(1e9)), 0.25);
}

TEST(Bounds, NothingWithAHeavyHeadIsShorterOrSmallerThanItsBounds) {
  Config config = config_of();
  config.model.vocab = 1024;
  config.model.layers = 6;
  expect_bounds(config, slow_cluster(1e7));
  expect_bounds(config, slow_cluster(1e9));
}

TEST(Bounds, NothingOfALlamaIsShorterOrSmallerThanItsBounds) {
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

/// Its blocks are not alike, so that no part of it stands for the whole.
TEST(Bounds, NothingOfAUNetIsShorterOrSmallerThanItsBounds) {
  SearchSpec spec = spec_of(4);
  spec.strategies = {"4d"};
  spec.freedom.zero = false;
  expect_bounds(unet_config(), slow_cluster(1e9), spec);
  spec.freedom.activations = false;
  expect_bounds(unet_config(), slow_cluster(1e7), spec);
}

/// Each pass of a pipeline gathers weights along z, and part of that overlaps with the pass before.
TEST(Bounds, NoPipelineThatGathersIsShorterThanItsBounds) {
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

/// A step of several passes without a pipeline: waits along x and y are in each of them, and those
/// along z may overlap with the pass before.
TEST(Bounds, NoPassesThatGatherAreShorterThanTheirBounds) {
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

}  // namespace
}  // namespace fourfold::test
