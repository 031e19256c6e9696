// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/resumed_config.hpp"

#include <filesystem>

#include "fourfold/config/strategy.hpp"
#include "fourfold/data/tokenizer.hpp"

namespace fourfold::train {

namespace {

/// Whether what a configuration without a grid says of parallelism is what the run has had.
bool agrees(const config::Config& config, const config::Config& own) {
  const config::ParallelConfig& now = config.parallel;
  const config::ParallelConfig& before = own.parallel;
  const bool strategy =
      now.strategy == config::kAuto ||
      (now.strategy == before.strategy && now.sequence_parallel == before.sequence_parallel);
  return strategy && (!now.kept.placement || now.placement == before.placement) &&
         (!now.kept.activations || now.activations == before.activations) &&
         (!now.kept.zero || now.zero == before.zero) &&
         (!now.kept.chunks || now.chunks == before.chunks) &&
         (!now.kept.micro_batch || config.train.micro_batch == own.train.micro_batch) &&
         (!now.kept.checkpoint ||
          config.train.checkpoint_activations == own.train.checkpoint_activations);
}

}  // namespace

void forget_other_grid(config::Config& config, int ranks) {
  if (!config.parallel.given || grid::Grid(config.parallel.sizes).ranks() == ranks) return;
  config.parallel = {};
  config.train.micro_batch = config.train.batch;
  config.train.checkpoint_activations = false;
}

void take_own_grid(config::Config& config, const config::Config& own, int ranks) {
  if (config.parallel.given || !own.parallel.given) return;
  if (grid::Grid(own.parallel.sizes).ranks() != ranks || !agrees(config, own)) return;
  config.parallel = own.parallel;
  config.train.micro_batch = own.train.micro_batch;
  config.train.checkpoint_activations = own.train.checkpoint_activations;
}

config::Config config_for_data(const config::Config& config, const std::string& run) {
  config::Config result = config;
  std::string& weights = result.train.init_from;
  std::error_code error;
  if (run.empty() || weights.empty() || std::filesystem::exists(weights, error)) return result;
  std::string& tokenizer = result.data.tokenizer_from;
  if (tokenizer.empty() && data::has_tokenizer(run)) tokenizer = run;
  // Text needs the tokenizer of the weights: without it the missing folder is to be named.
  if (result.data.text.empty() || !tokenizer.empty()) weights.clear();
  return result;
}

}  // namespace fourfold::train
