// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/keys.hpp"

#include <algorithm>
#include <limits>

#include "fourfold/config/strategy.hpp"

namespace fourfold::config {

namespace {

// Bounds that no run comes near, so that products of sizes stay numbers.
constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostUnits = std::int64_t{1} << 20;
constexpr std::int64_t kLongestContext = std::int64_t{1} << 24;
constexpr std::int64_t kMostSequences = std::int64_t{1} << 30;

constexpr std::int64_t kMostMib = std::int64_t{1} << 24;
constexpr Real kGib = {.low = 0, .high = 1e9};

constexpr Real kShare = {.low = 0, .high = 1};
constexpr Real kPositive = {.low = 0, .low_too = false};

/// The key "section.name" for the member that the pointers to members lead to.
template <class Rule, class... Members>
Key key(std::string_view full_name, Rule rule, Members... members) {
  const auto dot = full_name.find('.');
  return {.section = std::string(full_name.substr(0, dot)),
          .name = std::string(full_name.substr(dot + 1)),
          .allowed = rule.allowed(),
          .assign = [=](Config& config,
                        const Value& value) { return rule.assign((config.*....*members), value); },
          .value = [=](const Config& config) { return rule.value_of((config.*....*members)); }};
}

std::vector<std::string_view> strategy_names() {
  std::vector<std::string_view> names;
  for (const Strategy& strategy : strategies()) names.push_back(strategy.name);
  return names;
}

Key required(Key key) {
  key.required = true;
  return key;
}

// One line a key.
// clang-format off
std::vector<Key> make_keys() {
  constexpr auto model = &Config::model;
  constexpr auto data = &Config::data;
  constexpr auto train = &Config::train;
  constexpr auto optim = &Config::optim;
  constexpr auto parallel = &Config::parallel;
  constexpr auto overlap = &Config::overlap;
  constexpr auto device = &Config::device;
  const Choice<Tokenizer> tokenizers{{Tokenizer::kBpe, Tokenizer::kBytes}};
  const Choice<Precision> precisions{{Precision::kFloat32, Precision::kBf16, Precision::kFloat64}};
  const Choice<Activations> activations{{Activations::kSharded, Activations::kReplicated}};
  return {
      key("model.kind", Name{{"gpt"}}, model, &ModelConfig::kind),
      key("model.vocab", Whole{0, kMostTokens}, model, &ModelConfig::vocab),
      required(key("model.width", Whole{1, kMostUnits}, model, &ModelConfig::width)),
      required(key("model.heads", Whole{1, kMostUnits}, model, &ModelConfig::heads)),
      required(key("model.layers", Whole{1, kMostUnits}, model, &ModelConfig::layers)),
      required(key("model.context", Whole{1, kLongestContext}, model, &ModelConfig::context)),
      key("model.dropout", kShare, model, &ModelConfig::dropout),
      key("model.tied", Flag{}, model, &ModelConfig::tied),

      key("data.text", Path{}, data, &DataConfig::text),
      key("data.tokens", Path{}, data, &DataConfig::tokens),
      key("data.validation_tokens", Path{}, data, &DataConfig::validation_tokens),
      key("data.tokenizer", tokenizers, data, &DataConfig::tokenizer),
      key("data.validation", kShare, data, &DataConfig::validation),
      key("data.cache", Path{}, data, &DataConfig::cache),

      key("train.steps", Whole{1}, train, &TrainConfig::steps),
      key("train.batch", Whole{1, kMostSequences}, train, &TrainConfig::batch),
      key("train.micro_batch", Whole{0, kMostSequences}, train, &TrainConfig::micro_batch),
      key("train.precision", precisions, train, &TrainConfig::precision),
      key("train.seed", Whole{0, std::numeric_limits<std::int64_t>::max()}, train, &TrainConfig::seed),
      key("train.checkpoint_activations", Flag{}, train, &TrainConfig::checkpoint_activations),
      key("train.validate_every", Whole{0}, train, &TrainConfig::validate_every),
      key("train.validate_batches", Whole{1}, train, &TrainConfig::validate_batches),
      key("train.log_every", Whole{1}, train, &TrainConfig::log_every),

      key("optim.lr", kPositive, optim, &OptimConfig::lr),
      key("optim.min_lr", Real{}, optim, &OptimConfig::min_lr),
      key("optim.betas", RealPair{kShare}, optim, &OptimConfig::betas),
      key("optim.eps", kPositive, optim, &OptimConfig::eps),
      key("optim.weight_decay", Real{}, optim, &OptimConfig::weight_decay),
      key("optim.warmup", Whole{0}, optim, &OptimConfig::warmup),
      key("optim.clip", Real{}, optim, &OptimConfig::clip),

      key("parallel.strategy", Name{strategy_names()}, parallel, &ParallelConfig::strategy),
      key("parallel.x", GridSize{&grid::Sizes::x}, parallel),
      key("parallel.y", GridSize{&grid::Sizes::y}, parallel),
      key("parallel.z", GridSize{&grid::Sizes::z}, parallel),
      key("parallel.data", GridSize{&grid::Sizes::data}, parallel),
      key("parallel.pipe", GridSize{&grid::Sizes::pipe}, parallel),
      key("parallel.activations", activations, parallel, &ParallelConfig::activations),
      key("parallel.sequence_parallel", SequenceParallel{}, parallel),
      key("parallel.zero", Whole{0, 2}, parallel, &ParallelConfig::zero),
      key("parallel.chunks", Whole{1, 1 << 20}, parallel, &ParallelConfig::chunks),
      key("parallel.placement", AxisOrder{}, parallel, &ParallelConfig::placement),

      key("overlap.input_gradients", Flag{}, overlap, &OverlapConfig::input_gradients),
      key("overlap.weight_gradients", Flag{}, overlap, &OverlapConfig::weight_gradients),
      key("overlap.weights", Flag{}, overlap, &OverlapConfig::weights),
      key("overlap.keep_weights", Flag{}, overlap, &OverlapConfig::keep_weights),
      key("overlap.data", Flag{}, overlap, &OverlapConfig::data),
      key("overlap.halves", Flag{}, overlap, &OverlapConfig::halves),
      key("overlap.panels", Flag{}, overlap, &OverlapConfig::panels),
      key("overlap.window_mib", Whole{1, kMostMib}, overlap, &OverlapConfig::window_mib),
      key("overlap.keep_mib", Whole{0, kMostMib}, overlap, &OverlapConfig::keep_mib),
      key("overlap.segment_mib", Whole{1, kMostMib}, overlap, &OverlapConfig::segment_mib),

      key("device.memory_gib", kGib, device, &DeviceConfig::memory_gib),
  };
}
// clang-format on

}  // namespace

const std::vector<Key>& keys() {
  static const std::vector<Key> kKeys = make_keys();
  return kKeys;
}

const Key* find_key(std::string_view section, std::string_view name) {
  const auto& all = keys();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Key& key) {
    return key.section == section && key.name == name;
  });
  return found == all.end() ? nullptr : &*found;
}

bool is_section(std::string_view name) {
  const auto& all = keys();
  return std::any_of(all.begin(), all.end(), [&](const Key& key) { return key.section == name; });
}

}  // namespace fourfold::config
