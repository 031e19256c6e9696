// Compares strategies with the same model, batch and data on the same ranks.
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
#include "fourfold/train/run.hpp"

namespace fourfold::train {

/// The largest and the smallest value over all ranks.
struct Extent {
  double largest = 0;
  double smallest = 0;
};

/// One strategy on these ranks.
struct BenchRow {
  std::string strategy;
  std::string refused;  ///< why it does not run here; the other members are then empty
  grid::Sizes sizes{};
  std::int64_t passes = 1;  ///< micro-batches of a step
  int chunks = 1;
  Seconds predicted{};     ///< 0: not predicted
  Bytes predicted_peak{};  ///< 0: not predicted
  std::string missing;     ///< why only the memory was predicted; may be empty
  Seconds step{};          ///< the median of the times of the slowest rank in each step
  Seconds fastest{};       ///< the shortest of these times
  double exposed = 0;      ///< share of the step that compute is blocked, the mean of all ranks
  std::map<std::string, double> waits;  ///< the same by the axes that compute waits for
  std::map<std::string, Extent> sent;   ///< bytes of a step by the axes of the groups
  Extent bytes;                         ///< of all axes together
  Extent messages;
  std::array<Extent, tensor::kMemoryClasses> memory{};  ///< the peak of each class, in bytes
  Extent peak;                                          ///< of all tensors together
  double mfu = 0;
  double loss = 0;      ///< of the last step
  std::string warning;  ///< if the machine was too slow for the emulated devices
};

struct Bench {
  std::vector<BenchRow> rows;
  FlopsPerSecond gemm_flops;  ///< of all ranks together, measured at the start
};

/// The configuration for a strategy. Everything but [parallel] is kept; the sizes are those that
/// the strategy chooses for that many ranks with that much memory. A pipeline gets micro-batches if
/// the configuration has none. Throws ConfigError when the model does not fit.
config::Config with_strategy(const config::Config& config, const std::string& strategy, int ranks,
                             const RankMemory& memory = RankMemory::unlimited());

/// Trains `steps` steps with each strategy. `choose` settles the strategy `auto`, for which also
/// the values of [parallel] are kept that the configuration gives, and `predict` predicts the
/// others. Collective. Only rank 0 has complete rows, and it calls `tell` when a strategy is done.
Bench compare(comm::World& world, const config::Config& config, const Dataset& data,
              const std::vector<std::string>& strategies, std::int64_t steps,
              const std::function<void(const BenchRow&)>& tell, const Choose& choose = {},
              const Predict& predict = {});

/// A configuration whose grid and settings are chosen, and what was predicted for it.
struct Planned {
  config::Config config;
  Seconds step{};
  Bytes peak{};  ///< of the tensors of a rank
};

/// The same for given configurations.
Bench compare(comm::World& world, const Dataset& data, const std::vector<Planned>& plans,
              std::int64_t steps, const std::function<void(const BenchRow&)>& tell);

/// The tables for people, and the same results for programs.
std::string to_table(const Bench& bench);
std::string to_json(const Bench& bench, int ranks);

}  // namespace fourfold::train
