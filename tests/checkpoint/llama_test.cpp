// Folders of a Llama: written on one grid and read on another, and files of strangers.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/llama.hpp"

#include <fstream>

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fourfold/checkpoint/model_config.hpp"
#include "fourfold/checkpoint/weights.hpp"

#include "tests/checkpoint/support.hpp"
#include "tests/model/compare.hpp"

namespace fourfold::test {
namespace {

using model::LlamaModel;
using model::LlamaSpec;

LlamaSpec llama_spec() {
  LlamaSpec spec;
  spec.vocabulary = 37;
  spec.width = 32;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.hidden = 20;
  spec.layers = 2;
  spec.context = 8;
  spec.rotary = {.theta = 500,
                 .scaling = kernels::RotaryScaling{.factor = 4,
                                                   .low_freq_factor = 1,
                                                   .high_freq_factor = 2,
                                                   .original_max_position_embeddings = 16}};
  spec.epsilon = 1e-6;
  spec.execution.precision = nn::Precision::float64();
  return spec;
}

/// Writes weights and config.json on this grid.
void save_on(const grid::Grid& grid, const LlamaSpec& spec, const Weights& weights,
             const std::string& folder) {
  on_threads(grid.ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid);
    const model::Stages stages(mesh, std::make_shared<LlamaModel>(spec), 8);
    for (const nn::ParameterPtr& p : stages.parameters()) load(mesh, *p, weights.at(p->name()));
    checkpoint::save_weights(mesh, stages, folder);
  });
  std::ofstream(folder + "/config.json") << checkpoint::model_config(LlamaModel(spec), -1, -1);
}

TEST(LlamaFolder, IsReadAsItWasWrittenOnAnotherGrid) {
  for (const bool tied : {true, false}) {
    LlamaSpec spec = llama_spec();
    spec.tied = tied;
    const Weights weights = perturbed(initial_weights(spec));
    const Folder folder;
    save_on(grid::Grid({.x = 2, .y = 2, .z = 2}), spec, weights, folder.path());
    const model::ModelPtr read = checkpoint::read_model_config(folder.path());
    EXPECT_EQ(read->traits(), LlamaModel(spec).traits());
    EXPECT_EQ(read->sizes(), LlamaModel(spec).sizes());
    for (const grid::Sizes& sizes :
         {grid::Sizes{}, grid::Sizes{.y = 4}, grid::Sizes{.z = 2, .pipe = 2}}) {
      const grid::Grid grid(sizes);
      on_threads(grid.ranks(), [&](comm::World& world) {
        const tensor::Mesh mesh(world, grid);
        const model::Stages stages(mesh, read, 8);
        for (int i = 0; i < stages.chunks(); ++i) {
          checkpoint::load_weights(*read, stages[i], folder.path());
        }
        for (const nn::ParameterPtr& p : stages.parameters()) {
          const grid::Block block = block_here(mesh, *p);
          const bool same =
              at::equal(real_part(p->value(), block), block_of(weights.at(p->name()), block));
          EXPECT_TRUE(same) << grid << ": " << p->name();
        }
      });
    }
  }
}

TEST(LlamaFolder, OfStrangersIsRefusedWithALine) {
  const LlamaSpec spec = llama_spec();
  const Folder folder;
  save_on(grid::Grid(), spec, initial_weights(spec), folder.path());
  const auto good = nlohmann::json::parse(std::ifstream(folder.path() + "/config.json"));
  const auto complaint = [&](const char* key, const nlohmann::json& value) -> std::string {
    nlohmann::json json = good;
    json[key] = value;
    std::ofstream(folder.path() + "/config.json") << json;
    try {
      checkpoint::read_model_config(folder.path());
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint("vocab_size", 37), "");
  for (const auto& [key, value] : std::vector<std::pair<const char*, nlohmann::json>>{
           {"vocab_size", 38},
           {"hidden_size", 64},
           {"intermediate_size", 1e300},
           {"num_hidden_layers", std::int64_t{1} << 40},
           {"num_attention_heads", 3},
           {"num_key_value_heads", 3},
           {"head_dim", 16},
           {"max_position_embeddings", std::int64_t{1} << 50},
           {"hidden_act", "gelu"},
           {"attention_bias", true},
           {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}},
           {"rope_scaling", {{"rope_type", "llama3"}, {"factor", -4.0}}},
           {"rms_norm_eps", "small"}}) {
    const std::string said = complaint(key, value);
    EXPECT_NE(said.find("config.json: "), std::string::npos) << key << ": " << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace fourfold::test
