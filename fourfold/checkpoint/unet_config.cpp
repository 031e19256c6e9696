// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/unet_config.hpp"

#include "fourfold/formats/safetensors_folder.hpp"

namespace fourfold::checkpoint {

namespace {

using Schedule = model::NoiseSpec::Schedule;

/// The first two dimensions of the weights of a convolution.
std::pair<std::int64_t, std::int64_t> conv_shape(const formats::SafetensorsFolder& files,
                                                 const std::string& name,
                                                 const std::string& folder) {
  if (!files.contains(name)) throw ConfigError(concat("the weights in ", folder, " lack ", name));
  const std::vector<std::int64_t>& shape = files.entry(name).shape;
  if (shape.size() == 4 && shape[0] > 0 && shape[1] > 0) return {shape[0], shape[1]};
  throw ConfigError(concat(name, " in ", folder, " has the shape [", join(shape, ", "),
                           "], which is no convolution"));
}

}  // namespace

Json unet_config(const model::UNetSpec& spec) {
  return {{"architectures", {"UNetModel"}},
          {"model_type", "unet"},
          {"image_size", spec.image},
          {"in_channels", spec.colours},
          {"num_channels", spec.channels},
          {"channel_mult", spec.multipliers},
          {"num_res_blocks", spec.blocks},
          {"attention_resolutions", spec.attention},
          {"num_heads", spec.heads},
          {"num_groups", spec.groups},
          {"dropout", spec.dropout},
          {"learn_sigma", spec.learn_sigma},
          {"use_scale_shift_norm", true},
          {"noise_schedule", spec.noise.schedule == Schedule::kLinear ? "linear" : "cosine"},
          {"diffusion_steps", spec.noise.steps},
          {"torch_dtype", torch_type(spec.execution.precision.compute)}};
}

model::UNetSpec read_unet_config(const ConfigFile& json, const std::string& folder) {
  constexpr std::int64_t kLargestImage = 1 << 14;
  constexpr std::int64_t kMostBlocks = 64;
  constexpr std::size_t kMostLevels = 16;
  constexpr std::int64_t kMostSteps = 1 << 20;
  constexpr std::int64_t kMost = 1 << 20;
  json.expect("use_scale_shift_norm", true);
  const formats::SafetensorsFolder files(folder);
  const auto [channels, colours] = conv_shape(files, "input_blocks.0.0.weight", folder);
  const std::int64_t outputs = conv_shape(files, "out.2.weight", folder).first;
  model::UNetSpec spec;
  spec.image = json.at_most("image_size", kLargestImage);
  spec.colours = json.size("in_channels", colours);
  spec.channels = json.size("num_channels", channels);
  spec.multipliers = json.whole_numbers("channel_mult", kMostLevels, kMostBlocks);
  spec.blocks = json.at_most("num_res_blocks", kMostBlocks);
  spec.attention = json.whole_numbers("attention_resolutions", kMostLevels, kLargestImage);
  spec.heads = json.at_most("num_heads", kMost);
  spec.groups = json.has("num_groups") ? json.at_most("num_groups", kMost) : 32;
  spec.dropout = json.number("dropout", 0);
  spec.learn_sigma = outputs == 2 * colours;
  json.expect("learn_sigma", spec.learn_sigma);
  const std::string schedule = json.text("noise_schedule");
  if (schedule != "linear" && schedule != "cosine") {
    throw ConfigError(concat(json.path(), ": noise_schedule = ", json.shown("noise_schedule"),
                             ", but only \"linear\" and \"cosine\" are supported"));
  }
  spec.noise.schedule = schedule == "linear" ? Schedule::kLinear : Schedule::kCosine;
  spec.noise.steps = json.at_most("diffusion_steps", kMostSteps);
  spec.execution.precision = precision_of(json.text("torch_dtype"));
  return spec;
}

}  // namespace fourfold::checkpoint
