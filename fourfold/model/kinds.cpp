// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/kinds.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/model/gpt.hpp"
#include "fourfold/model/llama.hpp"
#include "fourfold/model/unet.hpp"

namespace fourfold::model {

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

Execution execution_of(const config::Config& config) {
  const bool summa = config::strategy_of(config.parallel.strategy).summa;
  return {.product = summa ? nn::ProductKind::kSumma : nn::ProductKind::k4d,
          .activations = config.parallel.activations == config::Activations::kSharded
                             ? nn::Activations::kSharded
                             : nn::Activations::kReplicated,
          .checkpoint = config.train.checkpoint_activations,
          .precision = precision_of(config.train.precision),
          .seed = config.train.seed};
}

Frame frame_of(const config::ModelConfig& config, const Execution& how) {
  return {.vocabulary = config.vocab,
          .width = config.width,
          .heads = config.heads,
          .layers = config.layers,
          .context = config.context,
          .tied = config.tied,
          .execution = how};
}

ModelPtr make_gpt(const config::ModelConfig& config, const Execution& how) {
  return std::make_shared<GptModel>(GptSpec{frame_of(config, how), config.dropout});
}

ModelPtr make_llama(const config::ModelConfig& config, const Execution& how) {
  LlamaSpec spec(frame_of(config, how));
  spec.kv_heads = config.kv_heads;
  spec.hidden = config.hidden;
  spec.rotary.theta = config.rope_theta;
  spec.epsilon = config.norm_eps;
  if (const std::vector<double>& numbers = config.rope_scaling; !numbers.empty()) {
    spec.rotary.scaling = {
        .factor = numbers[0],
        .low_freq_factor = numbers[1],
        .high_freq_factor = numbers[2],
        .original_max_position_embeddings = static_cast<std::int64_t>(numbers[3])};
  }
  return std::make_shared<LlamaModel>(spec);
}

ModelPtr make_unet(const config::ModelConfig& config, const Execution& how) {
  const bool linear = config.noise == config::NoiseSchedule::kLinear;
  return std::make_shared<UNetModel>(UNetSpec{
      .image = config.image,
      .colours = config.colours,
      .channels = config.channels,
      .multipliers = config.multipliers,
      .blocks = config.blocks,
      .attention = config.attention,
      .heads = config.heads,
      .groups = config.groups,
      .dropout = config.dropout,
      .learn_sigma = config.learn_sigma,
      .noise = {.schedule = linear ? NoiseSpec::Schedule::kLinear : NoiseSpec::Schedule::kCosine,
                .steps = config.noise_steps},
      .execution = how});
}

/// A line of the table of kinds.
struct Kind {
  std::string_view name;
  ModelPtr (*make)(const config::ModelConfig& config, const Execution& how);
};

constexpr Kind kKinds[] = {{"gpt", make_gpt}, {"llama", make_llama}, {"unet", make_unet}};

}  // namespace

ModelPtr model_of(const config::Config& config) {
  FOURFOLD_CHECK(config.model.vocab > 0 || config.model.has_images(),
                 "the vocabulary is not known yet");
  for (const Kind& kind : kKinds) {
    if (kind.name == config.model.kind) return kind.make(config.model, execution_of(config));
  }
  throw InvariantError(concat("there is no kind of model with the name ", config.model.kind));
}

}  // namespace fourfold::model
