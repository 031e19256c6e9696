// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/llama_config.hpp"

#include <cmath>

#include "fourfold/checkpoint/claims.hpp"
#include "fourfold/checkpoint/torch_type.hpp"

namespace fourfold::checkpoint {

namespace {

constexpr const char* kRope = "rope_scaling";

Json scaling_json(const std::optional<kernels::RotaryScaling>& scaling) {
  if (!scaling) return nullptr;
  return {{"rope_type", "llama3"},
          {"factor", scaling->factor},
          {"low_freq_factor", scaling->low_freq_factor},
          {"high_freq_factor", scaling->high_freq_factor},
          {"original_max_position_embeddings", scaling->original_max_position_embeddings}};
}

/// A positive number within an object of the file.
double number_in(const ConfigFile& json, const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_number() && found->get<double>() > 0) {
    return found->get<double>();
  }
  throw ConfigError(
      concat(json.path(), ": ", kRope, ".", key, " is missing or not a positive number"));
}

std::optional<kernels::RotaryScaling> read_scaling(const ConfigFile& json, const char* key) {
  const Json* object = json.object(key);
  if (object == nullptr) return std::nullopt;
  const auto found = object->find(object->contains("rope_type") ? "rope_type" : "type");
  const std::string type =
      found != object->end() && found->is_string() ? found->get<std::string>() : "";
  if (type == "default") return std::nullopt;
  if (type != "llama3") {
    throw ConfigError(
        concat(json.path(), ": ", key, " is of another type than \"llama3\", the supported one"));
  }
  constexpr double kLongest = 1e15;
  const double original = number_in(json, *object, "original_max_position_embeddings");
  return kernels::RotaryScaling{
      .factor = number_in(json, *object, "factor"),
      .low_freq_factor = number_in(json, *object, "low_freq_factor"),
      .high_freq_factor = number_in(json, *object, "high_freq_factor"),
      .original_max_position_embeddings = static_cast<std::int64_t>(std::fmin(original, kLongest))};
}

}  // namespace

Json llama_config(const model::LlamaSpec& spec) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", spec.vocabulary},
          {"hidden_size", spec.width},
          {"intermediate_size", spec.hidden},
          {"num_hidden_layers", spec.layers},
          {"num_attention_heads", spec.heads},
          {"num_key_value_heads", spec.kv_heads},
          {"head_dim", spec.width / spec.heads},
          {"hidden_act", "silu"},
          {"max_position_embeddings", spec.context},
          {"rms_norm_eps", spec.epsilon},
          {"rope_theta", spec.rotary.theta},
          {kRope, scaling_json(spec.rotary.scaling)},
          {"initializer_range", 0.02},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"mlp_bias", false},
          {"tie_word_embeddings", spec.tied},
          {"torch_dtype", torch_type(spec.execution.precision.compute)}};
}

model::LlamaSpec read_llama_config(const ConfigFile& json, const std::string& folder) {
  constexpr std::int64_t kLongestContext = std::int64_t{1} << 24;
  json.expect("hidden_act", "silu");
  json.expect("attention_bias", false);
  json.expect("mlp_bias", false);
  const formats::SafetensorsFolder files(folder);
  const auto [vocabulary, width] = table_shape(files, {"model.embed_tokens.weight"}, folder);
  const std::int64_t hidden =
      table_shape(files, {"model.layers.0.mlp.gate_proj.weight"}, folder).first;
  model::LlamaSpec spec;
  spec.vocabulary = json.size("vocab_size", vocabulary);
  spec.width = json.size("hidden_size", width);
  spec.hidden = json.size("intermediate_size", hidden);
  spec.layers = json.size("num_hidden_layers", blocks_in(files, {"model.layers."}));
  spec.heads = json.divisor("num_attention_heads", "hidden_size", spec.width);
  json.expect("head_dim", spec.width / spec.heads);
  spec.kv_heads = json.has("num_key_value_heads")
                      ? json.divisor("num_key_value_heads", "num_attention_heads", spec.heads)
                      : spec.heads;
  spec.context = json.at_most("max_position_embeddings", kLongestContext);
  spec.epsilon = json.number("rms_norm_eps", 1e-6);
  // Newer files have theta and scaling in one object.
  const bool together = json.object("rope_parameters") != nullptr;
  spec.rotary.theta = together ? number_in(json, *json.object("rope_parameters"), "rope_theta")
                               : json.number("rope_theta", 10000);
  spec.rotary.scaling = read_scaling(json, together ? "rope_parameters" : kRope);
  spec.tied = json.flag("tie_word_embeddings", false);
  spec.execution.precision =
      precision_of(json.text(json.has("torch_dtype") ? "torch_dtype" : "dtype"));
  return spec;
}

}  // namespace fourfold::checkpoint
