// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/setup.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/config/strategy.hpp"

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

}  // namespace fourfold::train
