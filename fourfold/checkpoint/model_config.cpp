// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/model_config.hpp"

#include <filesystem>
#include <fstream>
#include <ios>

#include <nlohmann/json.hpp>

#include "fourfold/base/check.hpp"

namespace fourfold::checkpoint {

namespace {

using Json = nlohmann::ordered_json;

std::string torch_type(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return "bfloat16";
    case at::kDouble:
      return "float64";
    default:
      return "float32";
  }
}

/// config.json under the user's eye: every complaint names the file and the key.
class Reader {
 public:
  explicit Reader(const std::string& folder) : path_(folder + "/config.json") {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error)) {
      throw ConfigError(concat(folder, " is not a folder with a model"));
    }
    std::ifstream file(path_);
    if (!file) throw ConfigError(concat(folder, " holds no model: there is no config.json in it"));
    json_ = Json::parse(file, nullptr, false);
    if (!json_.is_object()) throw ConfigError(path_ + " is damaged: it is not a JSON object");
  }

  std::int64_t size(const char* key) const {
    const auto found = json_.find(key);
    constexpr std::int64_t kLargest = std::int64_t{1} << 40;
    if (found == json_.end() || !found->is_number_integer() || found->get<double>() < 1 ||
        found->get<double>() > static_cast<double>(kLargest)) {
      throw ConfigError(concat(path_, ": ", key, " must be a whole number of at least 1"));
    }
    return found->get<std::int64_t>();
  }

  /// Where the key is given it must be this; GPT-2's own value is the default everywhere.
  template <class Value>
  void expect(const char* key, const Value& value) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null() || *found == Json(value)) return;
    throw ConfigError(concat(path_, ": ", key, " = ", found->dump(), ", but only ",
                             Json(value).dump(), " is supported: GPT-2's architecture"));
  }

  bool flag(const char* key, bool otherwise) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_boolean() ? found->get<bool>() : otherwise;
  }

  std::string text(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_string() ? found->get<std::string>() : "";
  }

  bool has(const char* key) const { return json_.contains(key); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Json json_;
};

}  // namespace

std::string model_config(const model::GptSpec& spec, std::int64_t end_of_text) {
  Json json = {{"architectures", {"GPT2LMHeadModel"}},
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
               {"torch_dtype", torch_type(spec.precision.compute)}};
  if (end_of_text >= 0) {
    json["bos_token_id"] = end_of_text;
    json["eos_token_id"] = end_of_text;
  } else {
    json["bos_token_id"] = nullptr;
    json["eos_token_id"] = nullptr;
  }
  return json.dump(2) + "\n";
}

model::GptSpec read_model_config(const std::string& folder) {
  const Reader json(folder);
  json.expect("model_type", "gpt2");
  json.expect("activation_function", "gelu_new");
  json.expect("layer_norm_epsilon", 1e-5);
  json.expect("scale_attn_weights", true);
  json.expect("scale_attn_by_inverse_layer_idx", false);
  json.expect("add_cross_attention", false);
  model::GptSpec spec;
  spec.vocabulary = json.size("vocab_size");
  spec.width = json.size("n_embd");
  spec.heads = json.size("n_head");
  spec.layers = json.size("n_layer");
  spec.context = json.size(json.has("n_positions") ? "n_positions" : "n_ctx");
  json.expect("n_inner", 4 * spec.width);
  if (spec.width % spec.heads != 0) {
    throw ConfigError(concat(json.path(), ": n_embd = ", spec.width,
                             " is not a multiple of n_head = ", spec.heads));
  }
  spec.tied = json.flag("tie_word_embeddings", true);
  const std::string type = json.text("torch_dtype");
  if (type == "bfloat16") spec.precision = nn::Precision::bf16();
  if (type == "float64") spec.precision = nn::Precision::float64();
  return spec;
}

void check_same_model(const model::GptSpec& wanted, const std::string& folder) {
  const model::GptSpec found = read_model_config(folder);
  const auto check = [&](const char* key, auto in_folder, auto in_config) {
    if (in_folder == in_config) return;
    throw ConfigError(concat(std::boolalpha, "the model in ", folder, " has ", key, " = ",
                             in_folder, ", not ", in_config, ": set model.", key, " to that"));
  };
  check("heads", found.heads, wanted.heads);
  check("layers", found.layers, wanted.layers);
  check("tied", found.tied, wanted.tied);
}

}  // namespace fourfold::checkpoint
