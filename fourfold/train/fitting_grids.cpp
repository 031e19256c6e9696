// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/fitting_grids.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/model/fit.hpp"
#include "fourfold/model/kinds.hpp"
#include "fourfold/train/setup.hpp"

namespace fourfold::train {

using config::Config;
using config::Strategy;

namespace {

constexpr std::int64_t kPassesAPlace = 4;  // enough that a pipeline idles only a fifth of the time

/// Passes overlap in a pipeline. Without several passes its ranks would work one after the other.
/// Returns the micro-batch of the configuration, if it has one. Otherwise the batch is cut into as
/// many micro-batches as possible, up to some for each place.
std::int64_t micro_batch_for(const Config& config, const grid::Sizes& sizes) {
  const std::int64_t batch = config.train.batch;
  if (sizes.pipe == 1 || config.train.micro_batch != batch) return config.train.micro_batch;
  for (std::int64_t passes = kPassesAPlace * sizes.pipe; passes > 1; --passes) {
    if (batch % passes != 0 || batch / passes % (sizes.data * sizes.z) != 0) continue;
    if (config.parallel.chunks > 1 && passes % sizes.pipe != 0) continue;
    return batch / passes;
  }
  return batch;
}

}  // namespace

Choice choice_of(const Config& config, const grid::Sizes& sizes) {
  return {sizes, micro_batch_for(config, sizes)};
}

Recipe recipe_of(const Config& config, const Choice& choice) {
  Recipe recipe = recipe_of(config);
  recipe.micro_batch = choice.micro_batch;
  return recipe;
}

std::string misfit(const Config& config, const Choice& choice) {
  const Recipe recipe = recipe_of(config, choice);
  const std::string reason = recipe_misfit(recipe, choice.sizes.pipe);
  if (!reason.empty()) return reason;
  return recipe.model->misfit(choice.sizes, choice.micro_batch);
}

std::string grids_that_work(const Config& config, int ranks) {
  const Strategy& strategy = config::strategy_of(config.parallel.strategy);
  return model::grids_that_work(grid::factorisations(ranks, strategy.axes),
                                [&](const grid::Sizes& sizes) {
                                  if (!config::has_sizes(strategy, sizes)) return false;
                                  if (sizes.pipe > 1 && !strategy.own.contains(grid::Axis::kPipe))
                                    return false;
                                  return misfit(config, choice_of(config, sizes)).empty();
                                });
}

std::vector<Choice> fitting_choices(const Config& config, int ranks) {
  const Strategy& strategy = config::strategy_of(config.parallel.strategy);
  std::vector<Choice> found;
  std::string reason;
  const std::vector<grid::Sizes> all = config::grids_of(strategy, ranks);
  for (const grid::Sizes& sizes : all) {
    const Choice choice = choice_of(config, sizes);
    reason = misfit(config, choice);
    if (reason.empty()) found.push_back(choice);
  }
  if (!found.empty()) return found;
  if (all.size() > 1) {
    reason = concat(model::model_of(config)->sizes(), " and a micro-batch of ",
                    config.train.micro_batch, " must be divided");
  }
  throw ConfigError(
      concat("no grid of ", ranks, " ranks that the strategy ", strategy.name,
             " takes by itself fits this model: ", reason,
             "; of those that --grid can name these work: ", grids_that_work(config, ranks)));
}

}  // namespace fourfold::train
