// How much memory a rank has for its tensors, and how much it needs on a grid.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/comm/communicator.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/config/config.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::train {

/// The memory that the tensors of a rank may use.
struct RankMemory {
  Bytes bytes;
  std::string origin;  ///< where the number comes from, for the user
  /// Whether the user has set it. If so, a given grid that needs more is refused.
  bool limit = false;

  /// An amount that no grid exceeds.
  static RankMemory unlimited();
  bool is_unlimited() const;
};

/// "64.0 GiB (device.memory_gib)".
std::string to_string(const RankMemory& memory);

/// device.memory_gib in bytes; zero if it is not set.
Bytes memory_of_device(const config::DeviceConfig& device);

/// The memory for training: device.memory_gib, or the free memory of this host divided by the
/// number of ranks that run on it. An eighth of the free memory is reserved for everything that is
/// not a tensor: messages in flight, samples, and memory that the allocator cannot use.
RankMemory memory_for_training(const config::Config& config, int ranks_here);

/// The same on the ranks of a world, whose hosts may differ: the smallest value of all ranks.
/// Collective.
RankMemory memory_for_training(const config::Config& config, const comm::World& world,
                               const comm::Communicator& everyone);

/// The memory for a dry run, where the ranks do not exist: device.memory_gib, or all memory of this
/// machine for one rank. It is never a limit.
RankMemory memory_for_dry_run(const config::Config& config);

/// What a rank needs in a step.
struct StepCost {
  double bytes = 0;   ///< the bytes that it sends
  double memory = 0;  ///< the peak of its tensors, including the construction of the model
};

/// All passes send and hold the same, and so do all layers, where they are alike. So a few small
/// dry runs are enough to estimate the cost of many layers and passes. For a small model with many
/// passes the memory may be larger by the window of overlaps. Not for grids with a pipeline.
StepCost estimate(const Recipe& recipe, const grid::Sizes& sizes);

/// The peak of the tensors of a rank, by dry runs of all layers, and of as many passes as can
/// matter; where these would be very many, a little more than the peak. With a pipeline of the rank
/// that has the most, or of the first that is found to need more than `enough`.
Bytes peak_memory(const Recipe& recipe, const grid::Sizes& sizes,
                  Bytes enough = RankMemory::unlimited().bytes);

}  // namespace fourfold::train
