// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/setup.hpp"

#include "fourfold/base/text.hpp"
#include "fourfold/model/kinds.hpp"

namespace fourfold::train {

namespace {

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
  Recipe recipe;
  recipe.model = model::model_of(config);
  recipe.batch = config.train.batch;
  recipe.micro_batch = config.train.micro_batch;
  recipe.chunks = config.parallel.chunks;
  recipe.optimizer = {.beta1 = config.optim.betas[0],
                      .beta2 = config.optim.betas[1],
                      .epsilon = config.optim.eps,
                      .decay = config.optim.weight_decay,
                      .zero = static_cast<optim::Zero>(config.parallel.zero),
                      .mean_decay = config.train.ema};
  recipe.learning_rate = {.largest = config.optim.lr,
                          .smallest = config.optim.min_lr,
                          .warmup = config.optim.warmup,
                          .steps = config.train.steps};
  recipe.clip = config.optim.clip;
  recipe.skip_bad_steps = config.train.on_bad_step == config::OnBadStep::kSkip;
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
