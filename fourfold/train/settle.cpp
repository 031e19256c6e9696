// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/settle.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/train/fitting_grids.hpp"
#include "fourfold/train/memory_advice.hpp"
#include "fourfold/train/setup.hpp"

namespace fourfold::train {

using config::Config;

namespace {

/// A grid and what it costs, as far as that is known.
struct Candidate {
  Choice choice;
  double rank = 0;    ///< the lower the better
  double memory = 0;  ///< about the memory that a rank needs
};

/// Bytes do not say how long the ranks of a pipeline idle. So the most even grid counts as the
/// best.
Candidate with_pipeline(const Choice& choice) {
  const grid::Sizes& s = choice.sizes;
  return {choice, static_cast<double>(std::max({s.x, s.y, s.z, s.data, s.pipe})), 0};
}

/// The candidates, the best first.
std::vector<Candidate> by_preference(const Config& config, const std::vector<Choice>& choices,
                                     bool pipeline) {
  std::vector<Candidate> all;
  for (const Choice& choice : choices) {
    if (pipeline) {
      all.push_back(with_pipeline(choice));
    } else {
      const StepCost cost = estimate(recipe_of(config, choice), choice.sizes);
      all.push_back({choice, cost.bytes, cost.memory});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; });
  return all;
}

/// The first candidate with enough memory. Records in the others how much they need.
std::optional<std::size_t> first_with_room(const Config& config, std::vector<Candidate>& candidates,
                                           Bytes memory) {
  // A candidate with a larger estimate does not fit. The others are examined exactly.
  constexpr double kDoubt = 1.1;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Candidate& one = candidates[i];
    if (one.memory > kDoubt * static_cast<double>(memory.value())) continue;
    const Bytes needed = peak_memory(recipe_of(config, one.choice), one.choice.sizes, memory);
    if (needed <= memory) return i;
    one.memory = static_cast<double>(needed.value());
  }
  return std::nullopt;
}

[[noreturn]] void refuse_all(const Config& config, int ranks,
                             const std::vector<Candidate>& candidates, const RankMemory& memory) {
  Candidate least =
      *std::min_element(candidates.begin(), candidates.end(),
                        [](const Candidate& a, const Candidate& b) { return a.memory < b.memory; });
  if (least.choice.sizes.pipe > 1) {  // not all of its places have been looked at
    const Bytes peak = peak_memory(recipe_of(config, least.choice), least.choice.sizes);
    least.memory = static_cast<double>(peak.value());
  }
  throw ConfigError(
      concat("no grid of ", ranks, ranks == 1 ? " rank" : " ranks",
             " has room for this model: ", least.choice.sizes, " needs the least, about ",
             Bytes(static_cast<std::int64_t>(least.memory)), " a rank for tensors, and there are ",
             to_string(memory), memory_advice(config, ranks, least.choice, memory.bytes)));
}

/// Checks a grid that the user has given.
std::string settle_given(const Config& config, int ranks, const RankMemory& memory) {
  const Choice given = {config.parallel.sizes, config.train.micro_batch};
  const int needed = grid::Grid(given.sizes).ranks();
  if (needed != ranks) {
    throw ConfigError(concat("the grid ", given.sizes, " needs ", needed, " ranks, not ", ranks,
                             "; with ", ranks, " these work: ", grids_that_work(config, ranks)));
  }
  // If the model does not fit, building it will report why.
  if (memory.is_unlimited() || !misfit(config, given).empty()) return {};
  const Bytes peak = peak_memory(recipe_of(config), given.sizes);
  if (peak <= memory.bytes) return {};
  const std::string text =
      concat("the grid ", given.sizes, " does not fit the memory: a rank needs ", peak,
             " for tensors, and there are ", to_string(memory));
  if (memory.limit) {
    throw ConfigError(text + memory_advice(config, ranks, given, memory.bytes));
  }
  return text;
}

}  // namespace

std::string settle_grid(Config& config, int ranks, const RankMemory& memory) {
  constexpr int kMostRanks = 1 << 20;
  if (ranks < 1 || ranks > kMostRanks) {
    throw ConfigError(concat("--ranks must be from 1 to ", kMostRanks, ", not ", ranks));
  }
  if (config.parallel.strategy == config::kAuto) config.parallel.strategy = "4d";
  if (config.parallel.given) return settle_given(config, ranks, memory);
  static_cast<void>(recipe_of(config));  // a model that does not go with the strategy has no grid
  const std::vector<Choice> choices = fitting_choices(config, ranks);
  const bool pipeline =
      config::strategy_of(config.parallel.strategy).own.contains(grid::Axis::kPipe);
  std::size_t chosen = 0;
  std::vector<Candidate> candidates = {{.choice = choices[0]}};
  if (choices.size() > 1 || !memory.is_unlimited()) {
    candidates = by_preference(config, choices, pipeline);
  }
  if (!memory.is_unlimited()) {
    const auto found = first_with_room(config, candidates, memory.bytes);
    if (!found) refuse_all(config, ranks, candidates, memory);
    chosen = *found;
  }
  const Choice best = candidates[chosen].choice;
  const bool cut = config.train.micro_batch != best.micro_batch;
  config.parallel.sizes = best.sizes;
  config.parallel.given = true;
  config.train.micro_batch = best.micro_batch;
  if (ranks == 1) return {};
  std::string text = concat("grid ", best.sizes);
  if (cut) text += concat(" and micro-batches of ", best.micro_batch);
  if (choices.size() == 1) return text;
  text += concat(": of the ", choices.size(), " grids that fit ", ranks, " ranks, the one ",
                 pipeline ? "most like a cube" : "that sends the fewest bytes a step");
  if (chosen > 0) text += concat(" with room in ", to_string(memory));
  return text;
}

void check_fit(const config::Config& config) {
  Recipe recipe = recipe_of(config);
  const grid::Sizes& sizes = config.parallel.sizes;
  const grid::Grid grid(sizes, config.parallel.placement);
  check_recipe(recipe, sizes.pipe);
  const std::string reason = recipe.model->misfit(sizes, recipe.micro_batch);
  if (!reason.empty()) {
    throw ConfigError(concat(reason, "; with ", grid.ranks(),
                             " ranks these grids work: ", grids_that_work(config, grid.ranks())));
  }
  if (recipe.model->alike()) {  // one layer for each stage is enough
    const std::int64_t stages = std::int64_t{sizes.pipe} * config.parallel.chunks;
    recipe.model = recipe.model->with_blocks(std::min(recipe.model->blocks(), stages));
  }
  comm::World world = comm::recording::open(0, grid.ranks());
  const Mesh mesh(world, grid, recipe.overlap);
  const model::Stages parts(mesh, recipe.model, recipe.micro_batch, recipe.chunks);
}

}  // namespace fourfold::train
