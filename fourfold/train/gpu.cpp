// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/gpu.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <c10/util/Exception.h>

#include "fourfold/base/check.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/train/rank_memory.hpp"

namespace fourfold::train {

namespace {

void check(const tensor::Gpus& gpus) {
  if (gpus.backend.empty()) {
    throw ConfigError(
        "device.kind = \"cuda\" needs a program that was built for CUDA (docs/gpu.md), and this "
        "one was built for the processor; set device.kind = \"cpu\"");
  }
  if (!gpus.missing.empty()) {
    throw ConfigError(concat("device.kind = \"cuda\", but ", gpus.missing,
                             "; set device.kind = \"cpu\" to train ", "on the processor"));
  }
}

LocalPlace place_of(const comm::World& world) {
  LocalPlace place{.index = 0, .size = 0};
  for (int rank = 0; rank < world.size(); ++rank) {
    if (world.host(rank) != world.host(world.rank())) continue;
    if (rank < world.rank()) ++place.index;
    ++place.size;
  }
  return place;
}

/// The GPUs that all ranks have chosen, in the order of the ranks.
std::vector<ChosenGpu> exchange(comm::World& world, const std::string& bus) {
  constexpr std::size_t kWords = 4;
  using Name = std::array<std::int64_t, kWords>;
  Name own{};
  FOURFOLD_CHECK(bus.size() < sizeof own, bus);
  std::memcpy(own.data(), bus.data(), bus.size());
  std::vector<Name> all(static_cast<std::size_t>(world.size()), own);
  const comm::Communicator everyone =
      world.communicator(grid::Grid({.x = world.size()}).everyone(world.rank()));
  everyone
      .all_gather(
          {own.data(), kWords, schedule::DType::kI64},
          {all.data(), static_cast<std::int64_t>(kWords) * world.size(), schedule::DType::kI64})
      .wait();
  std::vector<ChosenGpu> chosen;
  for (int rank = 0; rank < world.size(); ++rank) {
    const Name& name = all[static_cast<std::size_t>(rank)];
    chosen.push_back({world.host(rank), reinterpret_cast<const char*>(name.data())});
  }
  return chosen;
}

}  // namespace

void check_gpus(const config::DeviceConfig& config) {
  if (config.kind == config::DeviceKind::kCuda) check(tensor::find_gpus());
}

c10::DeviceType type_of(const config::DeviceConfig& config) {
  return config.kind == config::DeviceKind::kCuda ? c10::kCUDA : c10::kCPU;
}

c10::Device open_device(comm::World& world, const config::DeviceConfig& config) {
  if (config.kind == config::DeviceKind::kCpu) return c10::kCPU;
  const tensor::Gpus gpus = tensor::find_gpus();
  check(gpus);
  const int index =
      gpu_of_rank(static_cast<int>(gpus.list.size()), place_of(world), world.host(world.rank()));
  const tensor::Gpu& gpu = gpus.list[static_cast<std::size_t>(index)];
  if (!gpu.misfit.empty()) throw ConfigError(gpu.misfit);
  const std::string shared = shared_gpu(exchange(world, gpu.bus));
  if (!shared.empty()) throw ConfigError(shared);
  return tensor::use_gpu(world, {.index = index,
                                 .limit = memory_of_device(config),
                                 .exact_bf16_sums = config.bf16_sums == config::Bf16Sums::kExact});
}

Bytes gpu_memory() {
  const tensor::Gpus gpus = tensor::find_gpus();
  check(gpus);
  return std::min_element(
             gpus.list.begin(), gpus.list.end(),
             [](const tensor::Gpu& a, const tensor::Gpu& b) { return a.memory < b.memory; })
      ->memory;
}

int gpu_of_rank(int visible, const LocalPlace& place, const std::string& host) {
  if (visible == 1) return 0;  // each rank may see another one
  if (place.size <= visible) return place.index;
  throw ConfigError(concat("host ", host, " has ", place.size, " ranks, and each sees ", visible,
                           " GPUs; start at most ", visible,
                           " ranks on a host, or let each rank see only its own GPU "
                           "(CUDA_VISIBLE_DEVICES, or srun --gpus-per-task=1)"));
}

std::string shared_gpu(const std::vector<ChosenGpu>& of_ranks) {
  for (std::size_t second = 1; second < of_ranks.size(); ++second) {
    for (std::size_t first = 0; first < second; ++first) {
      const ChosenGpu& gpu = of_ranks[first];
      if (gpu.host != of_ranks[second].host || gpu.bus != of_ranks[second].bus) continue;
      return concat("ranks ", first, " and ", second, " would both compute on the GPU ", gpu.bus,
                    " of host ", gpu.host,
                    ", the only one that they see; start one rank for each GPU of a host");
    }
  }
  return {};
}

std::string describe_full_gpu(int rank, const tensor::MemoryUse& use,
                              const std::optional<Bytes>& expected) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < tensor::kMemoryClasses; ++i) {
    const auto kind = static_cast<tensor::MemoryClass>(i);
    parts.push_back(concat(to_string(kind), " ", use[kind]));
  }
  return concat("rank ", rank, " has no room left on its GPU: its tensors take ", use.total(), " (",
                join(parts, ", "), ")",
                expected ? concat(", and a dry run expects at most ", *expected) : std::string(),
                "; the rest is taken by NCCL, by libraries, by gaps between tensors or by other "
                "programs. Use more ranks, a smaller train.micro_batch or "
                "train.checkpoint_activations = true");
}

void explain_full_gpu(const std::string& during, int rank, const tensor::MemoryMeter& meter,
                      const std::function<Bytes()>& expected, const std::function<void()>& body) {
  try {
    body();
  } catch (const c10::OutOfMemoryError&) {
    const std::optional<Bytes> planned = expected ? std::optional(expected()) : std::nullopt;
    throw Error(
        concat(during, during.empty() ? "" : ": ", describe_full_gpu(rank, meter.now(), planned)));
  }
}

}  // namespace fourfold::train
