// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/candidate.hpp"

#include <algorithm>

#include "fourfold/base/text.hpp"
#include "fourfold/train/setup.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::planner {

using config::Activations;
using config::Config;
using config::Strategy;
using grid::Sizes;

Config apply(Config config, const Candidate& candidate) {
  config.parallel.strategy = candidate.strategy;
  config.parallel.sizes = candidate.sizes;
  config.parallel.given = true;
  config.parallel.placement = candidate.placement;
  config.parallel.activations = candidate.activations;
  config.parallel.sequence_parallel = candidate.activations == Activations::kSharded;
  config.parallel.zero = candidate.zero;
  config.parallel.chunks = candidate.chunks;
  config.train.checkpoint_activations = candidate.checkpoint;
  config.train.micro_batch = candidate.micro_batch;
  return config;
}

std::string settings_of(const Candidate& candidate, std::int64_t batch) {
  std::vector<std::string> all;
  if (candidate.micro_batch != batch)
    all.push_back(concat("micro-batches of ", candidate.micro_batch));
  if (candidate.chunks > 1) all.push_back(concat(candidate.chunks, " chunks"));
  if (candidate.checkpoint) all.emplace_back("checkpointing");
  if (candidate.activations == Activations::kReplicated) all.emplace_back("replicated activations");
  if (candidate.sizes.data > 1 && candidate.zero != 1)
    all.push_back(concat("zero ", candidate.zero));
  if (candidate.placement != grid::kDefaultPlacement) {
    all.push_back("placement " + grid::to_string(candidate.placement));
  }
  return join(all, ", ");
}

std::string to_string(const Candidate& candidate) {
  const std::string settings = settings_of(candidate, 0);
  return concat(candidate.strategy, " ", candidate.sizes, settings.empty() ? "" : ", ", settings);
}

namespace {

/// A pipeline with more passes for each place than this has bubbles that no longer matter.
constexpr std::int64_t kMostPassesAPlace = 16;
constexpr int kMostChunks = 4;

/// Whether sizes show what is typical of the strategy, so that it does not stand for another one.
bool is_typical(const Strategy& strategy, const Sizes& s) {
  if (!config::has_sizes(strategy, s)) return false;
  if (strategy.name == "zero3") return s.z > 1;
  if (strategy.name == "megatron") return s.y > 1;
  if (strategy.name == "deepspeed3d") return s.pipe > 1;
  if (strategy.name == "summa2d" || strategy.name == "3d") return s.x > 1;
  if (strategy.name == "summa2.5d") return s.x > 1 && s.z <= s.x;
  return true;
}

/// The numbers of passes to try. Without a pipeline more passes only save memory; in a pipeline
/// they shorten the bubbles.
std::vector<std::int64_t> passes_of(const Config& config, const Sizes& sizes) {
  const std::int64_t split = std::int64_t{sizes.data} * sizes.z;
  const std::int64_t batch = config.train.batch;
  if (batch % split != 0) return {};
  const std::int64_t most = batch / split;
  std::vector<std::int64_t> found;
  for (std::int64_t passes = 1; passes <= most; ++passes) {
    if (most % passes == 0) found.push_back(passes);
  }
  if (sizes.pipe == 1) return found;
  // With fewer passes than places some places idle all the time; more than enough passes only make
  // the products smaller.
  const std::int64_t fewest = std::min<std::int64_t>(sizes.pipe, most);
  const std::int64_t enough = kMostPassesAPlace * sizes.pipe;
  std::erase_if(found, [&](std::int64_t passes) { return passes < fewest || passes > enough; });
  return found;
}

class Enumeration {
 public:
  Enumeration(const Config& config, const Strategy& strategy, const Freedom& freedom)
      : config_(&config), strategy_(&strategy), freedom_(freedom) {
    Candidate plain;
    plain.strategy = strategy.name;
    for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
      if (strategy.summa && activations == Activations::kReplicated) continue;
      plain.activations = activations;
      recipes_[activations] = train::recipe_of(apply(config, plain));
    }
  }

  void add_sizes(const Sizes& sizes) {
    Candidate base{.strategy = std::string(strategy_->name),
                   .sizes = sizes,
                   .placement = config_->parallel.placement,
                   .activations = config_->parallel.activations,
                   .checkpoint = config_->train.checkpoint_activations,
                   .micro_batch = config_->train.micro_batch,
                   .chunks = config_->parallel.chunks,
                   .zero = strategy_->zero.value_or(config_->parallel.zero)};
    for (const Activations activations : activations_of(sizes)) {
      base.activations = activations;
      find_passes(base);
      for (const int zero : zeros_of(sizes)) {
        base.zero = zero;
        for (const int chunks : chunks_of(sizes)) {
          base.chunks = chunks;
          add_passes(base);
        }
      }
    }
  }

  Candidates take() { return std::move(found_); }

 private:
  std::vector<Activations> activations_of(const Sizes& s) const {
    if (strategy_->replicates) return {Activations::kReplicated};
    if (strategy_->summa || strategy_->name == "3d") return {Activations::kSharded};
    if (!freedom_.activations) return {config_->parallel.activations};
    if (s.x == 1 && s.y == 1) return {Activations::kSharded};
    return {Activations::kSharded, Activations::kReplicated};
  }

  std::vector<int> zeros_of(const Sizes& s) const {
    if (strategy_->zero) return {*strategy_->zero};
    if (!freedom_.zero) return {config_->parallel.zero};
    if (s.data == 1) return {1};
    if (s.pipe > 1) return {1, 0};
    return {1, 0, 2};
  }

  std::vector<int> chunks_of(const Sizes& s) const {
    if (s.pipe == 1) return {1};
    if (!freedom_.chunks) return {config_->parallel.chunks};
    std::vector<int> all;
    for (int chunks = 1; chunks <= kMostChunks; chunks *= 2) all.push_back(chunks);
    return all;
  }

  /// The numbers of passes with which the model fits the sizes, whatever else is chosen.
  void find_passes(const Candidate& candidate) {
    passes_ = {config_->train.batch / config_->train.micro_batch};
    if (freedom_.micro_batch) passes_ = passes_of(*config_, candidate.sizes);
    misfits_ = 0;
    const model::Model& model = *recipes_.at(candidate.activations).model;
    std::erase_if(passes_, [&](std::int64_t passes) {
      const bool misfit = !model.misfit(candidate.sizes, config_->train.batch / passes).empty();
      misfits_ += misfit ? 1 : 0;
      return misfit;
    });
  }

  void add_passes(Candidate candidate) {
    if (passes_.empty() && misfits_ == 0) reject("train.batch does not divide by data times z");
    if (misfits_ > 0) reject("the model or the batch cannot be split so", misfits_);
    train::Recipe& recipe = recipes_.at(candidate.activations);
    recipe.chunks = candidate.chunks;
    recipe.optimizer.zero = static_cast<optim::Zero>(candidate.zero);
    for (const std::int64_t passes : passes_) {
      candidate.micro_batch = config_->train.batch / passes;
      recipe.micro_batch = candidate.micro_batch;
      if (!train::recipe_misfit(recipe, candidate.sizes.pipe).empty()) {
        reject("the model or the batch cannot be split so");
        continue;
      }
      candidate.checkpoint = config_->train.checkpoint_activations;
      if (!freedom_.checkpoint) {
        found_.list.push_back(candidate);
        continue;
      }
      for (const bool checkpoint : {false, true}) {
        candidate.checkpoint = checkpoint;
        found_.list.push_back(candidate);
      }
    }
  }

  void reject(const std::string& reason, std::int64_t count = 1) {
    found_.rejected[reason] += count;
  }

  const Config* config_;
  const Strategy* strategy_;
  Freedom freedom_;
  std::map<Activations, train::Recipe> recipes_;
  std::vector<std::int64_t> passes_;  // of the sizes and activations that are being added
  std::int64_t misfits_ = 0;          // numbers of passes that do not fit these
  Candidates found_;
};

}  // namespace

Candidates candidates_of(const Config& config, const Strategy& strategy, int ranks,
                         const Freedom& freedom) {
  if (strategy.summa && config.model.has_images()) {
    return {.list = {},
            .rejected = {{"SUMMA multiplies matrices, and a U-Net convolves images", 1}}};
  }
  Enumeration all(config, strategy, freedom);
  if (!freedom.grid) {
    const Sizes& given = config.parallel.sizes;
    const bool fits = config::has_sizes(strategy, given) && grid::Grid(given).ranks() == ranks;
    if (fits) all.add_sizes(given);
    return all.take();
  }
  for (const Sizes& sizes : grid::factorisations(ranks, strategy.axes)) {
    const bool kept = freedom.pipe || sizes.pipe == config.parallel.sizes.pipe;
    if (kept && is_typical(strategy, sizes)) all.add_sizes(sizes);
  }
  return all.take();
}

}  // namespace fourfold::planner
