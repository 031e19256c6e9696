// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/model_config.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/checkpoint/gpt2_config.hpp"
#include "fourfold/checkpoint/llama_config.hpp"
#include "fourfold/checkpoint/unet_config.hpp"
#include "fourfold/checkpoint/weights.hpp"

namespace fourfold::checkpoint {

namespace {

/// A line of the table of kinds.
struct Kind {
  std::string_view name;        ///< as in our configuration
  std::string_view model_type;  ///< as in config.json
  bool has_tokens;
  Json (*write)(const model::Model& model);
  model::ModelPtr (*read)(const ConfigFile& json, const std::string& folder,
                          nn::Activations activations);
};

constexpr Kind kKinds[] = {
    {"gpt", "gpt2", true,
     [](const model::Model& model) {
       return gpt2_config(dynamic_cast<const model::GptModel&>(model).spec());
     },
     [](const ConfigFile& json, const std::string& folder,
        nn::Activations activations) -> model::ModelPtr {
       model::GptSpec spec = read_gpt2_config(json, folder);
       spec.execution.activations = activations;
       return std::make_shared<model::GptModel>(spec);
     }},
    {"llama", "llama", true,
     [](const model::Model& model) {
       return llama_config(dynamic_cast<const model::LlamaModel&>(model).spec());
     },
     [](const ConfigFile& json, const std::string& folder,
        nn::Activations activations) -> model::ModelPtr {
       model::LlamaSpec spec = read_llama_config(json, folder);
       spec.execution.activations = activations;
       return std::make_shared<model::LlamaModel>(spec);
     }},
    {"unet", "fourfold-unet", false,
     [](const model::Model& model) {
       return unet_config(dynamic_cast<const model::UNetModel&>(model).spec());
     },
     [](const ConfigFile& json, const std::string& folder,
        nn::Activations activations) -> model::ModelPtr {
       model::UNetSpec spec = read_unet_config(json, folder);
       spec.execution.activations = activations;
       return std::make_shared<model::UNetModel>(spec);
     }},
};

}  // namespace

std::string model_config(const model::Model& model, std::int64_t begin_of_text,
                         std::int64_t end_of_text) {
  for (const Kind& kind : kKinds) {
    if (kind.name != model.kind()) continue;
    Json json = kind.write(model);
    const auto token = [](std::int64_t id) { return id >= 0 ? Json(id) : Json(nullptr); };
    if (kind.has_tokens) {
      json["bos_token_id"] = token(begin_of_text);
      json["eos_token_id"] = token(end_of_text);
    }
    return json.dump(2) + "\n";
  }
  throw InvariantError(concat("no format of config.json for models of the kind ", model.kind()));
}

model::ModelPtr read_model_config(const std::string& folder, nn::Activations activations) {
  const ConfigFile json(folder);
  // Files without a type are taken for the first kind's, as its own early files have none.
  const std::string type =
      json.has("model_type") ? json.text("model_type") : std::string(kKinds[0].model_type);
  std::vector<std::string> known;
  for (const Kind& kind : kKinds) {
    known.push_back(concat('"', kind.model_type, '"'));
    if (kind.model_type != type) continue;
    const model::ModelPtr model = kind.read(json, folder, activations);
    check_weights(*model, folder);
    return model;
  }
  throw ConfigError(concat(json.path(), ": model_type = ", json.shown("model_type"), ", but only ",
                           join(known, " and "), known.size() == 1 ? " is" : " are", " supported"));
}

void check_same_model(const model::Model& wanted, const std::string& folder) {
  const model::ModelPtr found = read_model_config(folder);
  const auto in_folder = found->traits();
  const auto in_config = wanted.traits();
  for (std::size_t i = 0; i < std::min(in_folder.size(), in_config.size()); ++i) {
    if (in_folder[i] == in_config[i]) continue;
    throw ConfigError(concat("the model in ", folder, " has ", in_folder[i].first, " = ",
                             in_folder[i].second, ", not ", in_config[i].second, ": set model.",
                             in_folder[i].first, " to that"));
  }
}

}  // namespace fourfold::checkpoint
