// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/unet_config.hpp"

#include "fourfold/checkpoint/claims.hpp"
#include "fourfold/checkpoint/torch_type.hpp"

namespace fourfold::checkpoint {

using Schedule = model::NoiseSpec::Schedule;

Json unet_config(const model::UNetSpec& spec) {
  return {{"architectures", {"FourfoldUNet"}},
          {"model_type", "fourfold-unet"},
          {"image_size", spec.image},
          {"colours", spec.colours},
          {"channels", spec.channels},
          {"multipliers", spec.multipliers},
          {"blocks_a_level", spec.blocks},
          {"attention_sizes", spec.attention},
          {"heads", spec.heads},
          {"groups", spec.groups},
          {"dropout", spec.dropout},
          {"learn_sigma", spec.learn_sigma},
          {"noise", spec.noise.schedule == Schedule::kCosine ? "cosine" : "linear"},
          {"noise_steps", spec.noise.steps},
          {"torch_dtype", torch_type(spec.execution.precision.compute)}};
}

model::UNetSpec read_unet_config(const ConfigFile& json, const std::string& folder) {
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 14;
  constexpr std::int64_t kMostMultiplier = 1024;
  constexpr std::int64_t kMostNoiseSteps = 1000000;
  constexpr std::size_t kMostLevels = 32;
  const formats::SafetensorsFolder files(folder);
  model::UNetSpec spec;
  spec.channels = json.size("channels", table_shape(files, {"time_embed.0.weight"}, folder).second);
  spec.image = json.at_most("image_size", kMostPixels);
  spec.colours = json.at_most("colours", 3);
  if (spec.colours == 2) {
    throw ConfigError(concat(json.path(), ": colours = 2, but it must be 1 (grey) or 3"));
  }
  spec.multipliers = json.numbers("multipliers", kMostMultiplier, kMostLevels);
  spec.blocks = json.at_most("blocks_a_level", static_cast<std::int64_t>(files.tensors().size()));
  spec.attention = json.numbers("attention_sizes", kMostPixels, kMostLevels);
  spec.heads = json.at_most("heads", kMostMultiplier * spec.channels);
  spec.groups = json.divisor("groups", "channels", spec.channels);
  spec.dropout = json.number("dropout", 0);
  spec.learn_sigma = json.flag("learn_sigma", false);
  const std::string noise = json.text("noise");
  if (noise != "linear" && noise != "cosine") {
    throw ConfigError(
        concat(json.path(), ": noise = \"", noise, "\", but it must be \"linear\" or \"cosine\""));
  }
  spec.noise.schedule = noise == "linear" ? Schedule::kLinear : Schedule::kCosine;
  spec.noise.steps = json.at_most("noise_steps", kMostNoiseSteps);
  spec.execution.precision = precision_of(json.text("torch_dtype"));
  return spec;
}

}  // namespace fourfold::checkpoint
