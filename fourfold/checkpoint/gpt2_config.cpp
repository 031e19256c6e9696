// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/gpt2_config.hpp"

#include "fourfold/checkpoint/claims.hpp"
#include "fourfold/checkpoint/torch_type.hpp"

namespace fourfold::checkpoint {

Json gpt2_config(const model::GptSpec& spec) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", spec.vocabulary},
          {"n_positions", spec.context},
          {"n_ctx", spec.context},
          {"n_embd", spec.width},
          {"n_layer", spec.layers},
          {"n_head", spec.heads},
          {"n_inner", nullptr},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", 1e-5},
          {"initializer_range", 0.02},
          {"embd_pdrop", spec.dropout},
          {"resid_pdrop", spec.dropout},
          {"attn_pdrop", spec.dropout},
          {"tie_word_embeddings", spec.tied},
          {"torch_dtype", torch_type(spec.execution.precision.compute)}};
}

model::GptSpec read_gpt2_config(const ConfigFile& json, const std::string& folder) {
  json.expect("activation_function", "gelu_new");
  json.expect("layer_norm_epsilon", 1e-5);
  json.expect("scale_attn_weights", true);
  json.expect("scale_attn_by_inverse_layer_idx", false);
  json.expect("add_cross_attention", false);
  const formats::SafetensorsFolder files(folder);
  const std::string prefix = "transformer.";
  const auto [vocabulary, width] =
      table_shape(files, {"wte.weight", prefix + "wte.weight"}, folder);
  const std::int64_t context =
      table_shape(files, {"wpe.weight", prefix + "wpe.weight"}, folder).first;
  model::GptSpec spec;
  spec.vocabulary = json.size("vocab_size", vocabulary);
  spec.width = json.size("n_embd", width);
  spec.layers = json.size("n_layer", blocks_in(files, {"h.", prefix + "h."}));
  spec.context = json.size(json.has("n_positions") ? "n_positions" : "n_ctx", context);
  spec.heads = json.divisor("n_head", "n_embd", spec.width);
  json.expect("n_inner", 4 * spec.width);
  spec.tied = json.flag("tie_word_embeddings", true);
  spec.execution.precision = precision_of(json.text("torch_dtype"));
  return spec;
}

}  // namespace fourfold::checkpoint
