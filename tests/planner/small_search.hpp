// Searches that are small enough to try everything instead.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "fourfold/planner/placements.hpp"
#include "fourfold/planner/plan_text.hpp"
#include "fourfold/planner/search.hpp"

#include "tests/cluster/small_cluster.hpp"

namespace fourfold::test {

using config::Config;
using planner::Candidate;
using planner::Evaluation;
using planner::Predicted;
using planner::SearchSpec;

using planner::Evaluation;
using planner::Predicted;
using planner::SearchSpec;

inline Config config_of() {
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
inline cluster::Cluster slow_cluster(double links) {
  cluster::Cluster cluster = small_cluster();
  cluster.gpus_per_host = 2;
  cluster.device.f32 = FlopsPerSecond(20e9);
  cluster.network.nic_bandwidth = BytesPerSecond(links);
  cluster.network.inside_bandwidth = BytesPerSecond(10 * links);
  cluster.network.library = cluster::Library::kFourfold;
  return cluster;
}

inline SearchSpec spec_of(int ranks) {
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
inline std::vector<Predicted> everything(const Config& config, const cluster::Cluster& cluster,
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

inline void expect_best(const std::vector<Predicted>& found, const std::vector<Predicted>& all,
                        std::size_t top) {
  ASSERT_EQ(found.size(), std::min(top, all.size()));
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_DOUBLE_EQ(found[i].step.value(), all[i].step.value())
        << i << ": " << to_string(found[i].candidate) << " and " << to_string(all[i].candidate);
  }
}

/// Two levels, small enough for all its candidates.
inline Config unet_config() {
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

}  // namespace fourfold::test
