// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/model_config.hpp"

#include <filesystem>
#include <ios>
#include <optional>

#include <nlohmann/json.hpp>

#include "fourfold/base/check.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/formats/mapped_file.hpp"

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

/// A value of an untrusted file, as a few characters of one line.
std::string shown(const Json& value) {
  constexpr std::size_t kMost = 40;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

/// Returns nothing unless the value is a whole number of at least 1.
std::optional<std::int64_t> whole_number(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  // Numbers that only fit into an unsigned type become negative here.
  const auto number = value.get<std::int64_t>();
  return number >= 1 ? std::optional(number) : std::nullopt;
}

/// Reads config.json. Every error names the file and the key. Its values are only claims until the
/// weights confirm them.
class Reader {
 public:
  explicit Reader(const std::string& folder) : path_(folder + "/config.json") {
    constexpr std::size_t kMostBytes = 1 << 20;
    constexpr int kDeepest = 8;
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error)) {
      throw ConfigError(concat(folder, " is not a folder with a model"));
    }
    if (!std::filesystem::exists(path_, error)) {
      throw ConfigError(concat(folder, " holds no model: there is no config.json in it"));
    }
    const formats::MappedFile file(path_);
    if (file.bytes().size() > kMostBytes) {
      throw ConfigError(concat(path_, " has ", file.bytes().size(), " bytes, more than the ",
                               kMostBytes, " that a model's configuration may have"));
    }
    const auto* begin = reinterpret_cast<const char*>(file.bytes().data());
    // Deeper levels are left out: destroying them would need an equally deep stack.
    const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth < kDeepest; };
    json_ = Json::parse(begin, begin + file.bytes().size(), shallow, false);
    if (!json_.is_object()) throw ConfigError(path_ + " is damaged: it is not a JSON object");
  }

  /// A size that the weights also show.
  std::int64_t size(const char* key, std::int64_t in_weights) const {
    const auto found = json_.find(key);
    if (found != json_.end() && whole_number(*found) == in_weights) return in_weights;
    throw ConfigError(concat(path_, ": ", key,
                             found == json_.end() ? " is missing" : " = " + shown(*found),
                             ", but the weights beside it have ", in_weights));
  }

  /// A whole number that divides another one.
  std::int64_t divisor(const char* key, const char* of, std::int64_t number) const {
    const auto found = json_.find(key);
    const auto value = found == json_.end() ? std::nullopt : whole_number(*found);
    if (value && number % *value == 0) return *value;
    throw ConfigError(concat(path_, ": ", key,
                             found == json_.end() ? " is missing" : " = " + shown(*found),
                             ", but it must be a whole number that divides ", of, " = ", number));
  }

  /// If the key is given it must have this value. GPT-2's own value is the default everywhere.
  template <class Value>
  void expect(const char* key, const Value& value) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null() || *found == Json(value)) return;
    throw ConfigError(concat(path_, ": ", key, " = ", shown(*found), ", but only ",
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
  const FileSizes sizes = sizes_of_weights(folder);
  model::GptSpec spec;
  spec.vocabulary = json.size("vocab_size", sizes.vocabulary);
  spec.width = json.size("n_embd", sizes.width);
  spec.layers = json.size("n_layer", sizes.layers);
  spec.context = json.size(json.has("n_positions") ? "n_positions" : "n_ctx", sizes.context);
  spec.heads = json.divisor("n_head", "n_embd", spec.width);
  json.expect("n_inner", 4 * spec.width);
  spec.tied = json.flag("tie_word_embeddings", true);
  const std::string type = json.text("torch_dtype");
  if (type == "bfloat16") spec.precision = nn::Precision::bf16();
  if (type == "float64") spec.precision = nn::Precision::float64();
  check_weights(spec, folder);
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
