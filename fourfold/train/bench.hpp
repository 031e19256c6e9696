// Strategies side by side: the same model, batch and data on the same ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fourfold/comm/world.hpp"
#include "fourfold/config/config.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/train/dataset.hpp"
#include "fourfold/train/rank_memory.hpp"

namespace fourfold::train {

/// The largest and the smallest of all ranks.
struct Extent {
  double largest = 0;
  double smallest = 0;
};

/// One strategy on these ranks.
struct BenchRow {
  std::string strategy;
  std::string refused;  ///< why it does not run here; the rest is empty then
  grid::Sizes sizes{};
  std::int64_t passes = 1;  ///< micro-batches of a step
  int chunks = 1;
  Seconds step{};      ///< the median, of the slowest rank in each
  double exposed = 0;  ///< share of it in which compute stands still, the mean of all ranks
  std::map<std::string, Extent> sent;  ///< bytes of a step by the axes of the groups
  Extent bytes;                        ///< of all axes together
  Extent messages;
  std::array<Extent, tensor::kMemoryClasses> memory{};  ///< each class's peak, in bytes
  double mfu = 0;
  double loss = 0;  ///< of the last step
};

struct Bench {
  std::vector<BenchRow> rows;
  FlopsPerSecond gemm_flops;  ///< of all ranks together, measured at the start
};

/// The configuration for a strategy: everything but [parallel] stays, whose sizes are the
/// strategy's own for so many ranks with that much memory. A pipeline gets micro-batches if the
/// configuration has none. Throws ConfigError when it does not fit.
config::Config with_strategy(const config::Config& config, const std::string& strategy, int ranks,
                             const RankMemory& memory = RankMemory::unlimited());

/// Trains so many steps with each strategy. Collective; the rows are whole on rank 0, where `tell`
/// is called as each ends.
Bench compare(comm::World& world, const config::Config& config, const Dataset& data,
              const std::vector<std::string>& strategies, std::int64_t steps,
              const std::function<void(const BenchRow&)>& tell);

/// The tables for people, and the same for programs.
std::string to_table(const Bench& bench);
std::string to_json(const Bench& bench, int ranks);

}  // namespace fourfold::train
