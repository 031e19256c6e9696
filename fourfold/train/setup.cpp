// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/setup.hpp"

#include <algorithm>
#include <limits>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/train/dry_run.hpp"

namespace fourfold::train {

namespace {

nn::Precision precision_of(config::Precision precision) {
  switch (precision) {
    case config::Precision::kBf16:
      return nn::Precision::bf16();
    case config::Precision::kFloat64:
      return nn::Precision::float64();
    case config::Precision::kFloat32:
      break;
  }
  return nn::Precision::float32();
}

tensor::Overlap overlap_of(const config::OverlapConfig& config) {
  constexpr std::int64_t kMib = std::int64_t{1} << 20;
  tensor::Overlap overlap;
  overlap.input_gradients = config.input_gradients;
  overlap.weight_gradients = config.weight_gradients;
  overlap.weights = config.weights;
  overlap.keep_weights = config.keep_weights;
  overlap.data = config.data;
  overlap.halves = config.halves;
  overlap.panels = config.panels;
  overlap.window = config.window_mib * kMib;
  overlap.keep = config.keep_mib * kMib;
  overlap.segment = config.segment_mib * kMib;
  return overlap;
}

std::string named(const grid::Sizes& g) {
  const std::string text = concat("x=", g.x, ",y=", g.y, ",z=", g.z, ",data=", g.data);
  return g.pipe == 1 ? text : concat(text, ",pipe=", g.pipe);
}

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

Recipe recipe_of(const config::Config& config) {
  FOURFOLD_CHECK(config.model.vocab > 0, "the vocabulary is not known yet");
  Recipe recipe;
  recipe.model.vocabulary = config.model.vocab;
  recipe.model.width = config.model.width;
  recipe.model.heads = config.model.heads;
  recipe.model.layers = config.model.layers;
  recipe.model.context = config.model.context;
  recipe.model.dropout = config.model.dropout;
  recipe.model.tied = config.model.tied;
  recipe.model.activations = config.parallel.activations == config::Activations::kSharded
                                 ? nn::Activations::kSharded
                                 : nn::Activations::kReplicated;
  const config::Algorithm algorithm = config::strategy_of(config.parallel.strategy).algorithm;
  recipe.model.algorithm =
      algorithm == config::Algorithm::kSumma ? nn::Algorithm::kSumma : nn::Algorithm::k4d;
  recipe.model.checkpoint = config.train.checkpoint_activations;
  recipe.model.precision = precision_of(config.train.precision);
  recipe.model.seed = config.train.seed;
  recipe.batch = config.train.batch;
  recipe.micro_batch = config.train.micro_batch;
  recipe.chunks = config.parallel.chunks;
  recipe.optimizer = {.beta1 = config.optim.betas[0],
                      .beta2 = config.optim.betas[1],
                      .epsilon = config.optim.eps,
                      .decay = config.optim.weight_decay,
                      .zero = static_cast<optim::Zero>(config.parallel.zero)};
  recipe.rates = {.largest = config.optim.lr,
                  .smallest = config.optim.min_lr,
                  .warmup = config.optim.warmup,
                  .steps = config.train.steps};
  recipe.clip = config.optim.clip;
  recipe.overlap = overlap_of(config.overlap);
  return recipe;
}

std::string describe(const tensor::Overlap& overlap, int parts) {
  std::vector<std::string> on;
  std::vector<std::string> off;
  const auto add = [&](const char* name, bool value) { (value ? on : off).emplace_back(name); };
  add("input_gradients", overlap.input_gradients);
  add("weight_gradients", overlap.weight_gradients);
  add("weights", overlap.weights);
  add("keep_weights", overlap.keep_weights);
  add("data", overlap.data);
  add("halves", overlap.halves);
  add("panels", overlap.panels);
  std::string text = "overlaps: " + (off.empty()  ? "all"
                                     : on.empty() ? "none"
                                                  : join(on, ", ") + "; not " + join(off, ", "));
  if (parts == 2) text += "; a rank's samples go in two halves";
  return text;
}

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

/// The grids of the strategy that the model fits. Throws ConfigError that says why there is none.
std::vector<grid::Sizes> fitting_grids(const config::Config& config, const Recipe& recipe,
                                       int ranks) {
  const config::Strategy& strategy = config::strategy_of(config.parallel.strategy);
  const std::vector<grid::Sizes> all = config::grids_of(strategy, ranks);
  std::vector<grid::Sizes> found;
  for (const grid::Sizes& sizes : all) {
    if (model::fits(recipe.model, sizes, recipe.micro_batch)) found.push_back(sizes);
  }
  if (!found.empty()) return found;
  if (all.size() == 1) {
    config::Config one = config;
    one.parallel.sizes = all[0];
    check_fit(one);  // says what does not fit
  }
  throw ConfigError(concat("no grid of ", ranks, " ranks of the strategy ", strategy.name,
                           " fits this model: ", config.model.heads, " heads, width ",
                           config.model.width, ", ", config.model.layers,
                           " layers and a micro-batch of ", recipe.micro_batch,
                           " must be divided; change one of them or --ranks"));
}

}  // namespace

std::string settle_grid(config::Config& config, int ranks) {
  if (ranks < 1) throw ConfigError(concat("--ranks must be at least 1, not ", ranks));
  const Recipe recipe = recipe_of(config);
  const grid::Sizes& given = config.parallel.sizes;
  if (config.parallel.given) {
    const int needed = grid::Grid(given).ranks();
    if (needed != ranks) {
      throw ConfigError(concat(
          "the grid ", named(given), " needs ", needed, " ranks, not ", ranks, "; with ", ranks,
          " these work: ", model::grids_that_work(recipe.model, ranks, recipe.micro_batch)));
    }
    return {};
  }
  const auto grids = fitting_grids(config, recipe, ranks);
  double fewest = std::numeric_limits<double>::infinity();
  for (const grid::Sizes& sizes : grids) {
    const double bytes = grids.size() == 1 ? 0 : bytes_sent(recipe, sizes);
    if (bytes >= fewest) continue;
    fewest = bytes;
    config.parallel.sizes = sizes;
  }
  config.parallel.given = true;
  if (ranks == 1) return {};
  if (grids.size() == 1) return concat("grid ", named(config.parallel.sizes));
  return concat("grid ", named(config.parallel.sizes), ": of the ", grids.size(), " that fit ",
                ranks, " ranks, the one that sends the fewest bytes a step");
}

void check_fit(const config::Config& config) {
  Recipe recipe = recipe_of(config);
  const int stages = config.parallel.sizes.pipe * config.parallel.chunks;
  // All layers are built alike.
  recipe.model.layers = std::min<std::int64_t>(recipe.model.layers, stages);
  const grid::Grid grid(config.parallel.sizes, config.parallel.placement);
  comm::World world = comm::recording::open(0, grid.ranks());
  const Mesh mesh(world, grid, recipe.overlap);
  check_recipe(recipe, mesh);
  const model::Stages gpt(mesh, recipe.model, recipe.micro_batch, recipe.chunks);
}

}  // namespace fourfold::train
