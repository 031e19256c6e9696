// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fourfold/config/strategy.hpp"
#include "fourfold/planner/amount.hpp"
#include "fourfold/planner/bound.hpp"
#include "fourfold/planner/pipeline_memory.hpp"

namespace fourfold::planner {

namespace {

/// Of weights, gradients and the optimizer's state.
double weights_of_rank(const Workload& load, const Candidate& c) {
  const double size = static_cast<double>(schedule::size_of(load.dtype));
  const double master = std::max(size, 4.0);
  const grid::Sizes& s = c.sizes;
  const bool summa = config::strategy_of(c.strategy).summa;
  const double shards = static_cast<double>(s.x) * s.y * s.pipe * (summa ? 1 : s.z);
  const double replicas = static_cast<double>(s.data) * (summa ? s.z : 1);
  const double gradients = c.zero == 2 ? master / replicas : master;
  const double copy = size < master ? master : 0;  // of the weights, in the master type
  const double moments = (2 * master + copy) / (c.zero == 0 ? 1 : replicas);
  // Stages of a pipeline need not be even: the embedding may be on one of them alone.
  return static_cast<double>(load.parameters) / shards * (size + gradients + moments);
}

}  // namespace

Bytes least_memory(const Workload& load, const Candidate& c) {
  const double weights = weights_of_rank(load, c);
  if (c.checkpoint) return Bytes(static_cast<std::int64_t>(weights));
  // The backward pass of a linear layer needs its input.
  const double size = static_cast<double>(schedule::size_of(load.dtype));
  double inputs = 0;
  for (const ForwardProduct& product : load.products) {
    if (!product.linear) continue;
    inputs += size * static_cast<double>(product.extent.m) * static_cast<double>(product.extent.k) *
              static_cast<double>(product.times);
  }
  const double held = inputs * static_cast<double>(c.micro_batch) / c.ranks();
  return Bytes(static_cast<std::int64_t>(weights + held));
}

bool holds_sums(const Candidate& c, std::int64_t passes) {
  return c.sizes.pipe > 1 && c.sizes.z > 1 && !c.checkpoint && passes > 1 &&
         !config::strategy_of(c.strategy).summa;
}

Bytes least_memory(const Profile& profile, const Workload& load, const config::Config& config,
                   const Candidate& c) {
  const PassMemory& pass = profile.memory();
  if (!load.alike) {
    // The place that needs the most needs at least as much as all need on average.
    const double held = part_of(profile, c) * pass.first / c.sizes.pipe;
    return Bytes(static_cast<std::int64_t>(weights_of_rank(load, c) + held));
  }
  const Amount amount(load, config, c);
  double held = pass.first + (amount.blocks() - 1) * pass.block;
  if (c.sizes.pipe > 1) {
    const auto passes = static_cast<std::int64_t>(amount.passes);
    const double size = config.train.precision == config::Precision::kFloat64 ? 8 : 4;
    const double sums = holds_sums(c, passes) ? pass.weights * c.sizes.z * size : 0;
    std::vector<ChunkMemory> chunks;
    for (const double blocks : amount.chunks_of_first) {
      chunks.push_back({blocks * pass.block, blocks * sums});
    }
    held = most_held(c.sizes.pipe, passes, chunks) + std::max(0.0, pass.first - pass.block);
  }
  return Bytes(static_cast<std::int64_t>(weights_of_rank(load, c) + held));
}

}  // namespace fourfold::planner
