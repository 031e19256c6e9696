// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/rank_memory.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "fourfold/base/check.hpp"
#include "fourfold/base/host_memory.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/gpu.hpp"

namespace fourfold::train {

RankMemory RankMemory::unlimited() {
  return {Bytes(std::numeric_limits<std::int64_t>::max()), "no limit", false};
}

bool RankMemory::is_unlimited() const {
  return bytes == unlimited().bytes;
}

std::string to_string(const RankMemory& memory) {
  return concat(memory.bytes, " (", memory.origin, ")");
}

Bytes memory_of_device(const config::DeviceConfig& device) {
  constexpr double kGib = 1 << 30;
  return Bytes(static_cast<std::int64_t>(device.memory_gib * kGib));
}

RankMemory memory_for_training(const config::Config& config, int ranks_here) {
  if (config.device.memory_gib > 0) {
    return {memory_of_device(config.device), "device.memory_gib", true};
  }
  if (config.device.kind == config::DeviceKind::kCuda) {
    const Bytes all = gpu_memory();
    return {all - Bytes(all.value() / 8), "the memory of its GPU without an eighth", true};
  }
  const Bytes share(host_memory().available.value() / std::max(1, ranks_here));
  return {share - Bytes(share.value() / 8), "its share of the memory that is free on its host"};
}

RankMemory memory_for_training(const config::Config& config, const comm::World& world,
                               const comm::Communicator& everyone) {
  int ranks_here = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (world.host(rank) == world.host(world.rank())) ++ranks_here;
  }
  RankMemory memory = memory_for_training(config, ranks_here);
  std::int64_t least = -memory.bytes.value();
  if (everyone.size() > 1) {
    everyone.all_reduce({&least, 1, schedule::DType::kI64}, comm::ReduceOp::kMax).wait();
  }
  memory.bytes = Bytes(-least);
  return memory;
}

RankMemory memory_for_dry_run(const config::Config& config) {
  if (config.device.memory_gib > 0) return {memory_of_device(config.device), "device.memory_gib"};
  return {host_memory().total,
          "the memory of this machine; device.memory_gib names that of another rank"};
}

namespace {

Bytes peak_of(const StepRecord& record) {
  return record.peak();
}

/// The cost of a step of `passes` passes.
StepCost cost_of(Recipe recipe, std::int64_t passes, const grid::Sizes& sizes) {
  recipe.batch = passes * recipe.micro_batch;
  const grid::Grid grid(sizes);
  const StepRecord record = dry_run(grid, typical_rank(grid, 0, *recipe.model), recipe);
  StepCost cost;
  for (const auto& [key, count] : record.counts) {
    cost.bytes += static_cast<double>(count.wire.bytes.value());
  }
  cost.memory = static_cast<double>(peak_of(record).value());
  return cost;
}

/// The cost of a step of `layers` layers and `passes` passes.
StepCost cost_of(Recipe recipe, std::int64_t layers, std::int64_t passes,
                 const grid::Sizes& sizes) {
  // The same share of the weights can be kept.
  recipe.overlap.keep = recipe.overlap.keep * layers / recipe.model->blocks();
  recipe.model = recipe.model->with_blocks(layers);
  return cost_of(std::move(recipe), passes, sizes);
}

/// The value at `n` of a linear function, from its values at 1 and 2.
double at(std::int64_t n, double one, double two) {
  return one + static_cast<double>(n - 1) * (two - one);
}

/// The cost of all layers and `passes` passes.
StepCost cost_of_layers(const Recipe& recipe, std::int64_t passes, const grid::Sizes& sizes) {
  if (!recipe.model->alike()) return cost_of(recipe, passes, sizes);
  const StepCost one = cost_of(recipe, 1, passes, sizes);
  const std::int64_t layers = recipe.model->blocks();
  if (layers == 1) return one;
  const StepCost two = cost_of(recipe, 2, passes, sizes);
  return {at(layers, one.bytes, two.bytes), at(layers, one.memory, two.memory)};
}

}  // namespace

StepCost estimate(const Recipe& recipe, const grid::Sizes& sizes) {
  FOURFOLD_CHECK(sizes.pipe == 1, "neither a layer nor a pass is like the others in ", sizes);
  const StepCost one = cost_of_layers(recipe, 1, sizes);
  const std::int64_t passes = recipe.batch / recipe.micro_batch;
  if (passes == 1) return one;
  const StepCost two = cost_of_layers(recipe, 2, sizes);
  // A third pass reuses the memory of the second.
  return {at(passes, one.bytes, two.bytes), two.memory};
}

namespace {

/// The peak of one rank. Sums of gradients under way may accumulate from pass to pass until they
/// fill the window. So the number of passes is increased until the peak stays the same, up to a
/// limit.
Bytes peak_of_rank(const grid::Grid& grid, int rank, const Recipe& recipe) {
  constexpr std::int64_t kMostTimes = 8;
  const std::int64_t all = recipe.batch / recipe.micro_batch;
  // So many passes are under way together, and one that takes the memory of another; with chunks
  // only multiples of the places are possible.
  const std::int64_t places = grid.size(grid::Axis::kPipe);
  const std::int64_t first = recipe.chunks > 1 ? 2 * places * recipe.chunks : places + 1;
  Recipe some = recipe;
  const auto peak_of_passes = [&](std::int64_t passes) {
    some.batch = passes * recipe.micro_batch;
    return peak_of(dry_run(grid, rank, some));
  };
  std::int64_t passes = std::min(all, first);
  Bytes peak = peak_of_passes(passes);
  while (passes < all) {
    if (passes >= kMostTimes * first) return peak + Bytes(recipe.overlap.window);
    passes = std::min(all, 2 * passes);
    const Bytes next = peak_of_passes(passes);
    if (next == peak) break;
    peak = next;
  }
  return peak;
}

/// The places of a pipeline one of which needs the most. Of places with as many blocks the earlier
/// one has more passes under way; the last one has the head.
std::vector<int> telling_places(const Recipe& recipe, int places) {
  std::vector<int> telling;
  std::set<std::int64_t> seen;
  const std::vector<model::Stage> stages = recipe.model->cut(places * recipe.chunks);
  for (int place = 0; place < places; ++place) {
    const std::int64_t blocks = stages[static_cast<std::size_t>(place)].blocks.size();
    const bool only_one =
        recipe.chunks > 1 || place == 0 || place + 1 == places || !recipe.model->alike();
    if (only_one || seen.insert(blocks).second) telling.push_back(place);
  }
  return telling;
}

}  // namespace

Bytes peak_memory(const Recipe& recipe, const grid::Sizes& sizes, Bytes enough) {
  const grid::Grid grid(sizes);
  Bytes largest;
  for (const int place : telling_places(recipe, sizes.pipe)) {
    if (largest > enough) break;
    const int rank = typical_rank(grid, place, *recipe.model);
    largest = std::max(largest, peak_of_rank(grid, rank, recipe));
  }
  return largest;
}

}  // namespace fourfold::train
