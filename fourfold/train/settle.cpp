// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/settle.hpp"

#include <algorithm>
#include <limits>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/setup.hpp"

namespace fourfold::train {

using config::Config;
using config::Strategy;

namespace {

/// What a rank sends in a step of so many layers and passes.
double bytes_sent(Recipe recipe, std::int64_t layers, std::int64_t passes,
                  const grid::Sizes& sizes) {
  // Of the weights that can be kept, as large a share.
  recipe.overlap.keep = recipe.overlap.keep * layers / recipe.model.layers;
  recipe.model.layers = layers;
  recipe.batch = passes * recipe.micro_batch;
  double sum = 0;
  for (const auto& [key, count] : dry_run(grid::Grid(sizes), 0, recipe).counts) {
    sum += static_cast<double>(count.wire.bytes.value());
  }
  return sum;
}

/// The value at `n` of what grows evenly, from those at 1 and 2.
template <class Value>
double extrapolate(std::int64_t n, const Value& value) {
  const double one = value(1);
  return n == 1 ? one : one + static_cast<double>(n - 1) * (value(2) - one);
}

}  // namespace

double bytes_sent(const Recipe& recipe, const grid::Sizes& sizes) {
  const std::int64_t passes = recipe.batch / recipe.micro_batch;
  // With a pipeline neither a layer nor a pass is like the others.
  if (sizes.pipe > 1) return bytes_sent(recipe, recipe.model.layers, passes, sizes);
  return extrapolate(passes, [&](std::int64_t some_passes) {
    return extrapolate(recipe.model.layers, [&](std::int64_t layers) {
      return bytes_sent(recipe, layers, some_passes, sizes);
    });
  });
}

namespace {

/// One way to train a configuration.
struct Choice {
  grid::Sizes sizes;
  std::int64_t micro_batch = 0;
};

constexpr std::int64_t kPassesAPlace = 4;  // enough that a pipeline idles a fifth of the time

/// Passes overlap in a pipeline: without several of them its ranks would work one after the other.
/// The most micro-batches, up to some for each place, that the batch can be cut into, unless the
/// configuration has some.
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

Choice choice_of(const Config& config, const grid::Sizes& sizes) {
  return {sizes, micro_batch_for(config, sizes)};
}

/// Why the model does not fit; empty if it does.
std::string misfit(const Config& config, const Choice& choice) {
  Recipe recipe = recipe_of(config);
  recipe.micro_batch = choice.micro_batch;
  try {
    check_recipe(recipe, choice.sizes.pipe);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return model::misfit(recipe.model, choice.sizes, choice.micro_batch);
}

/// Some of the grids that the strategy can be given and that the model fits; with a pipeline only
/// where that belongs to it.
std::string grids_that_work(const Config& config, int ranks) {
  constexpr std::size_t kNamed = 6;
  const Strategy& strategy = config::strategy_of(config.parallel.strategy);
  std::vector<std::string> names;
  for (const grid::Sizes& sizes : grid::factorisations(ranks, strategy.axes)) {
    if (!config::has_sizes(strategy, sizes)) continue;
    if (sizes.pipe > 1 && !strategy.own.contains(grid::Axis::kPipe)) continue;
    if (!misfit(config, choice_of(config, sizes)).empty()) continue;
    if (names.size() == kNamed) return join(names, " or ") + " and others";
    names.push_back(grid::to_string(sizes));
  }
  return names.empty() ? "none; change the ranks, the batch or the heads" : join(names, " or ");
}

/// Throws ConfigError that says why there is none.
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
    reason =
        concat(config.model.heads, " heads, width ", config.model.width, ", ", config.model.layers,
               " layers and a micro-batch of ", config.train.micro_batch, " must be divided");
  }
  throw ConfigError(
      concat("no grid of ", ranks, " ranks that the strategy ", strategy.name,
             " takes by itself fits this model: ", reason,
             "; of those that --grid can name these work: ", grids_that_work(config, ranks)));
}

/// Bytes say nothing about how long the ranks of a pipeline idle.
Choice most_even(const std::vector<Choice>& choices) {
  const auto longest = [](const Choice& choice) {
    const grid::Sizes& s = choice.sizes;
    return std::max({s.x, s.y, s.z, s.data, s.pipe});
  };
  return *std::min_element(choices.begin(), choices.end(), [&](const Choice& a, const Choice& b) {
    return longest(a) < longest(b);
  });
}

Choice fewest_bytes(const std::vector<Choice>& choices, const Recipe& recipe) {
  Choice best = choices[0];
  double fewest = std::numeric_limits<double>::infinity();
  for (const Choice& choice : choices) {
    const double bytes = choices.size() == 1 ? 0 : bytes_sent(recipe, choice.sizes);
    if (bytes >= fewest) continue;
    fewest = bytes;
    best = choice;
  }
  return best;
}

}  // namespace

std::string settle_grid(Config& config, int ranks) {
  constexpr int kMostRanks = 1 << 20;
  if (ranks < 1 || ranks > kMostRanks) {
    throw ConfigError(concat("--ranks must be from 1 to ", kMostRanks, ", not ", ranks));
  }
  if (config.parallel.given) {
    const grid::Sizes& given = config.parallel.sizes;
    const int needed = grid::Grid(given).ranks();
    if (needed == ranks) return {};
    throw ConfigError(concat("the grid ", given, " needs ", needed, " ranks, not ", ranks,
                             "; with ", ranks, " these work: ", grids_that_work(config, ranks)));
  }
  const std::vector<Choice> choices = fitting_choices(config, ranks);
  const bool pipeline =
      config::strategy_of(config.parallel.strategy).own.contains(grid::Axis::kPipe);
  const Choice best = pipeline ? most_even(choices) : fewest_bytes(choices, recipe_of(config));
  const bool cut = config.train.micro_batch != best.micro_batch;
  config.parallel.sizes = best.sizes;
  config.parallel.given = true;
  config.train.micro_batch = best.micro_batch;
  if (ranks == 1) return {};
  std::string text = concat("grid ", best.sizes);
  if (cut) text += concat(" and micro-batches of ", best.micro_batch);
  if (choices.size() == 1) return text;
  return concat(text, ": of the ", choices.size(), " grids that fit ", ranks, " ranks, the one ",
                pipeline ? "most like a cube" : "that sends the fewest bytes a step");
}

void check_fit(const config::Config& config) {
  Recipe recipe = recipe_of(config);
  const grid::Sizes& sizes = config.parallel.sizes;
  const grid::Grid grid(sizes, config.parallel.placement);
  check_recipe(recipe, sizes.pipe);
  const std::string reason = model::misfit(recipe.model, sizes, recipe.micro_batch);
  if (!reason.empty()) {
    throw ConfigError(concat(reason, "; with ", grid.ranks(),
                             " ranks these grids work: ", grids_that_work(config, grid.ranks())));
  }
  // All layers are built alike.
  const std::int64_t stages = std::int64_t{sizes.pipe} * config.parallel.chunks;
  recipe.model.layers = std::min(recipe.model.layers, stages);
  comm::World world = comm::recording::open(0, grid.ranks());
  const Mesh mesh(world, grid, recipe.overlap);
  const model::Stages gpt(mesh, recipe.model, recipe.micro_batch, recipe.chunks);
}

}  // namespace fourfold::train
