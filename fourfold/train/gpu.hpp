// Which GPU a rank computes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/comm/world.hpp"
#include "fourfold/config/config.hpp"
#include "fourfold/tensor/gpus.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::train {

/// Throws ConfigError if the configuration asks for GPUs and this process has none: the program was
/// not built for them, or there is no driver or no GPU.
void check_gpus(const config::DeviceConfig& config);

/// The devices whose memory the tensors of a rank take.
c10::DeviceType type_of(const config::DeviceConfig& config);

/// Where the tensors of this rank are. If that is a GPU, it is this rank's alone, and the world
/// communicates between GPUs from now on. Collective; called again it gives the same. Throws
/// ConfigError when there is no GPU for each rank, or none that this program can use.
c10::Device open_device(comm::World& world, const config::DeviceConfig& config);

/// The memory of the smallest GPU that this process sees.
Bytes gpu_memory();

// The decisions behind `open_device`.

/// The place of a rank among those of its host.
struct LocalPlace {
  int index = 0;
  int size = 1;
};

/// The GPU of a rank that sees `visible` of them: its own where each rank sees one, as Slurm does
/// it, else the one with the number of the rank on its host. Throws ConfigError if there are too
/// few.
int gpu_of_rank(int visible, const LocalPlace& place, const std::string& host);

/// The GPU of a rank, as others know it.
struct ChosenGpu {
  std::string host;
  std::string bus;
};
/// Names the ranks of which two would have the same GPU; empty if there are none.
std::string shared_gpu(const std::vector<ChosenGpu>& of_ranks);

/// What the user should know when a GPU has no room for a tensor. `expected` is what a dry run says
/// that the tensors of this rank need.
std::string describe_full_gpu(int rank, const tensor::MemoryUse& use,
                              const std::optional<Bytes>& expected);

/// Calls `body`. If a GPU has no room for a tensor there, throws an Error that says so in one line.
/// It begins with `during`, unless that is empty. `expected` may be empty, too.
void explain_full_gpu(const std::string& during, int rank, const tensor::MemoryMeter& meter,
                      const std::function<Bytes()>& expected, const std::function<void()>& body);

}  // namespace fourfold::train
