// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/defaults.hpp"

#include <algorithm>

namespace fourfold::config {

namespace {

/// The default is one pass. If ranks of a pipeline have several stages, the number of passes must
/// be a multiple of the places.
std::int64_t default_micro_batch(const Config& config) {
  const std::int64_t batch = config.train.batch;
  const int places = config.parallel.sizes.pipe;
  const bool several = config.parallel.chunks > 1 && batch % places == 0;
  return several ? batch / places : batch;
}

std::int64_t next_multiple(std::int64_t number, std::int64_t of) {
  return (number + of - 1) / of * of;
}

/// Leaves the sizes of attention that the images have at some level.
void keep_sizes_of_levels(ModelConfig& model) {
  std::erase_if(model.attention, [&](std::int64_t size) {
    const std::int64_t factor = size > 0 && model.image % size == 0 ? model.image / size : 0;
    const std::size_t levels =
        std::min<std::size_t>(model.multipliers.size(), 63);  // bits of a size
    for (std::size_t level = 0; level < levels; ++level) {
      if (factor == std::int64_t{1} << level) return false;
    }
    return true;
  });
}

}  // namespace

void settle_defaults(Draft& draft) {
  TrainConfig& train = draft.config.train;
  OptimConfig& optim = draft.config.optim;
  const auto given = [&](const char* key) { return draft.places.contains(key); };
  ModelConfig& model = draft.config.model;
  if (model.kind == "llama") {
    constexpr std::int64_t kMultiple = 64;
    if (model.kv_heads == 0) model.kv_heads = model.heads;
    if (model.hidden == 0) model.hidden = next_multiple((8 * model.width + 2) / 3, kMultiple);
    if (!given("model.tied")) model.tied = false;
  }
  if (model.has_images()) {
    constexpr std::int64_t kHeads = 4;
    if (model.heads == 0) model.heads = kHeads;
    if (!given("model.attention")) keep_sizes_of_levels(model);
  }
  if (train.micro_batch == 0) {
    train.micro_batch = default_micro_batch(draft.config);
  } else if (!given("train.batch")) {
    train.batch = next_multiple(train.batch, train.micro_batch);
  }
  if (!given("optim.warmup")) {
    optim.warmup = std::min(optim.warmup, train.steps);
  } else if (!given("train.steps")) {
    train.steps = std::max(train.steps, optim.warmup);
  }
  if (!given("optim.min_lr")) {
    optim.min_lr = std::min(optim.min_lr, optim.lr);
  } else if (!given("optim.lr")) {
    optim.lr = std::max(optim.lr, optim.min_lr);
  }
}

}  // namespace fourfold::config
