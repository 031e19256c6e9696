// config.json of a model's folder: read, and held against the weights beside it.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/model_config.hpp"

#include <fstream>
#include <map>
#include <sys/resource.h>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fourfold/base/check.hpp"
#include "fourfold/checkpoint/generation_config.hpp"
#include "fourfold/model/unet.hpp"

#include "tests/checkpoint/support.hpp"

namespace fourfold::test {
namespace {

namespace fs = std::filesystem;
using model::GptSpec;

TEST(ModelConfig, ReadsWhatItWrites) {
  const Folder folder;
  GptSpec spec = small_spec(nn::Precision::bf16());
  spec.tied = false;
  save_alone(spec, folder.path());
  std::ofstream(folder.path() + "/config.json")
      << checkpoint::model_config(model::GptModel(spec), 36, 36);
  const model::ModelPtr found = checkpoint::read_model_config(folder.path());
  const GptSpec& read = dynamic_cast<const model::GptModel&>(*found).spec();
  EXPECT_EQ(read.vocabulary, spec.vocabulary);
  EXPECT_EQ(read.width, spec.width);
  EXPECT_EQ(read.heads, spec.heads);
  EXPECT_EQ(read.layers, spec.layers);
  EXPECT_EQ(read.context, spec.context);
  EXPECT_EQ(read.tied, spec.tied);
  EXPECT_EQ(read.execution.precision.compute, at::kBFloat16);
}

TEST(ModelConfig, ReadsTheUNetItWrites) {
  const Folder folder;
  model::UNetSpec spec;
  spec.image = 12;
  spec.colours = 1;
  spec.channels = 8;
  spec.multipliers = {1, 3, 2};
  spec.blocks = 1;
  spec.attention = {6, 3};
  spec.heads = 2;
  spec.groups = 4;
  spec.noise = {.schedule = model::NoiseSpec::Schedule::kLinear, .steps = 77};
  const auto model = std::make_shared<model::UNetModel>(spec);
  comm::World world = comm::self::open();
  const tensor::Mesh mesh(world, grid::Grid());
  checkpoint::save_weights(mesh, model::Stages(mesh, model, 1), folder.path());
  const std::string text = checkpoint::model_config(*model, -1, -1);
  EXPECT_EQ(text.find("token_id"), std::string::npos);
  std::ofstream(folder.path() + "/config.json") << text;
  const model::ModelPtr found = checkpoint::read_model_config(folder.path());
  const model::UNetSpec& read = dynamic_cast<const model::UNetModel&>(*found).spec();
  EXPECT_EQ(found->traits(), model->traits());
  EXPECT_EQ(read.noise, spec.noise);
  EXPECT_EQ(read.multipliers, spec.multipliers);
  EXPECT_EQ(read.attention, spec.attention);
  const auto complaint_about = [&](const char* key, const nlohmann::json& value) -> std::string {
    auto changed = nlohmann::json::parse(text);
    changed[key] = value;
    std::ofstream(folder.path() + "/config.json") << changed.dump();
    try {
      checkpoint::read_model_config(folder.path());
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  const std::vector<std::pair<const char*, nlohmann::json>> wrong = {
      {"channels", 16},
      {"image_size", 0},
      {"colours", 4},
      {"blocks_a_level", 100000},
      {"multipliers", {1, "2"}},
      {"multipliers", std::vector<int>(1000, 1)},
      {"attention_sizes", {-1}},
      {"attention_sizes", 4},
      {"heads", 3},
      {"noise_steps", 0},
      {"colours", 2},
      {"noise", "Linear"},
      {"noise", nullptr}};
  for (const auto& [key, value] : wrong) {
    const std::string said = complaint_about(key, value);
    EXPECT_NE(said.find(key), std::string::npos) << value.dump() << ": " << said;
  }
  EXPECT_NE(complaint_about("multipliers", {1, 2, 2}), "") << "the weights have other shapes";
  EXPECT_NE(complaint_about("blocks_a_level", 2), "") << "the weights have fewer blocks";
}

TEST(ModelConfig, RefusesOtherModels) {
  const Folder folder;
  GptSpec spec = small_spec();
  spec.vocabulary = 10;
  spec.width = 8;
  spec.heads = 2;
  spec.layers = 1;
  spec.context = 4;
  save_alone(spec, folder.path());
  const auto complaint_about = [&](const std::string& text) -> std::string {
    std::ofstream(folder.path() + "/config.json") << text;
    try {
      checkpoint::read_model_config(folder.path());
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  const std::string sizes =
      R"("vocab_size": 10, "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 4)";
  EXPECT_EQ(complaint_about("{" + sizes + "}"), "");
  for (const char* bad :
       {R"("model_type": "mistral")", R"("activation_function": "relu")",
        R"("layer_norm_epsilon": 1e-6)", R"("n_inner": 7)", R"("n_head": 3)", R"("n_layer": 0)",
        R"("n_layer": "two")", R"("n_embd": 1e300)", R"("scale_attn_weights": false)"}) {
    const std::string said = complaint_about("{" + sizes + ", " + bad + "}");
    EXPECT_NE(said.find("config.json: "), std::string::npos) << bad << ": " << said;
  }
  EXPECT_NE(complaint_about("{").find("damaged"), std::string::npos);
  fs::remove(folder.path() + "/config.json");
  EXPECT_THROW(checkpoint::read_model_config(folder.path()), ConfigError);
  EXPECT_THROW(checkpoint::read_model_config(folder.path() + "/no"), ConfigError);
}

/// What reading the folder's config.json says; empty if it is read.
std::string config_complaint(const std::string& folder, const std::string& text) {
  std::ofstream(folder + "/config.json") << text;
  try {
    checkpoint::read_model_config(folder);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::int64_t largest_resident() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

/// A size is a claim: what is not in the weights is refused, at once and without memory for it.
TEST(ModelConfig, BelievesNoSizeThatTheWeightsLack) {
  const Folder folder;
  const GptSpec spec = small_spec();
  save_alone(spec, folder.path());
  const std::map<std::string, std::string> right = {{"vocab_size", "37"},
                                                    {"n_embd", "24"},
                                                    {"n_head", "4"},
                                                    {"n_layer", "2"},
                                                    {"n_positions", "8"}};
  const auto text = [](const std::map<std::string, std::string>& values) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : values) pairs.push_back(concat("\"", key, "\": ", value));
    return "{" + join(pairs, ", ") + "}";
  };
  ASSERT_EQ(config_complaint(folder.path(), text(right)), "");
  const std::string deep(200'000, '[');
  const std::vector<std::string> hostile = {"1099511627776",
                                            "1000000000000",
                                            "9223372036854775807",
                                            "18446744073709551615",
                                            "1" + std::string(30, '0'),
                                            "-1",
                                            "0",
                                            "1e308",
                                            "8.0",
                                            "2.5",
                                            "\"8\"",
                                            "null",
                                            "true",
                                            "[2]",
                                            "{\"a\": 2}",
                                            deep + std::string(deep.size(), ']'),
                                            "\"" + std::string(5000, 'x') + "\""};
  const std::int64_t before = largest_resident();
  for (const auto& [key, value] : right) {
    for (const std::string& bad : hostile) {
      std::map<std::string, std::string> values = right;
      values[key] = bad;
      const std::string said = config_complaint(folder.path(), text(values));
      EXPECT_EQ(said.find(folder.path() + "/config.json: " + key + " = "), 0U)
          << key << " = " << bad.substr(0, 50) << ": " << said;
      const std::string truth =
          key == "n_head" ? "n_embd = 24" : "the weights beside it have " + value;
      EXPECT_NE(said.find(truth), std::string::npos) << said;
      EXPECT_LT(said.size(), 300U);
      EXPECT_EQ(said.find('\n'), std::string::npos);
    }
    std::map<std::string, std::string> values = right;
    values.erase(key);
    EXPECT_NE(config_complaint(folder.path(), text(values)).find("is missing, but "),
              std::string::npos)
        << key;
  }
  EXPECT_LT(largest_resident() - before, std::int64_t{64} << 20);
  const std::string endless = "{\"n_layer\": 1" + std::string(400, '0') + "}";
  EXPECT_NE(config_complaint(folder.path(), endless).find("is damaged"), std::string::npos);
  EXPECT_NE(config_complaint(folder.path(), deep).find("is damaged"), std::string::npos);
  EXPECT_NE(config_complaint(folder.path(), std::string(2'000'000, ' ')).find("2000000 bytes"),
            std::string::npos);
}

/// Names and shapes of a model that is not there, in a file of a few bytes.
TEST(ModelConfig, BelievesNoBlockThatIsNotThere) {
  const Folder folder;
  std::string data(std::size_t{2} * 24 * 2, '\0');
  nlohmann::json header = {
      {"wte.weight", {{"dtype", "F16"}, {"shape", {1, 24}}, {"data_offsets", {0, 48}}}},
      {"wpe.weight", {{"dtype", "F16"}, {"shape", {1, 24}}, {"data_offsets", {48, 96}}}}};
  const auto complaint_with_blocks = [&](std::int64_t first, std::int64_t count) {
    nlohmann::json all = header;
    for (std::int64_t i = first; i < first + count; ++i) {
      all[concat("h.", i, ".ln_1.bias")] = {
          {"dtype", "F16"}, {"shape", {0}}, {"data_offsets", {96, 96}}};
    }
    const std::string text = all.dump();
    const std::uint64_t length = text.size();
    std::ofstream file(folder.path() + "/model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), 8);
    file << text << data;
    file.close();
    return config_complaint(
        folder.path(), concat(R"({"vocab_size": 1, "n_embd": 24, "n_head": 4, "n_positions": 1, )",
                              R"("n_layer": )", count, "}"));
  };
  const std::int64_t before = largest_resident();
  EXPECT_NE(complaint_with_blocks(0, 20'000).find("ln_1"), std::string::npos);
  EXPECT_NE(complaint_with_blocks(2'000'000'000, 1).find("lack h.0."), std::string::npos);
  EXPECT_LT(largest_resident() - before, std::int64_t{128} << 20);
}

TEST(GenerationTokens, AreThoseOfGenerationConfigThenThoseOfConfig) {
  const Folder folder;
  const auto read = [&](const std::string& generation, const std::string& config) {
    std::ofstream(folder.path() + "/generation_config.json") << generation;
    std::ofstream(folder.path() + "/config.json") << config;
    return checkpoint::read_generation_tokens(folder.path(), 100);
  };
  using Tokens = std::vector<std::int64_t>;
  const std::string config = R"({"bos_token_id": 3, "eos_token_id": 4})";
  EXPECT_EQ(read(checkpoint::generation_config(7, 8), config).begin, 7);
  EXPECT_EQ(read(checkpoint::generation_config(7, 8), config).ends, Tokens{8});
  EXPECT_EQ(read(checkpoint::generation_config(-1, -1), config).begin, 3);
  EXPECT_EQ(read(R"({"eos_token_id": [9, 0]})", config).ends, (Tokens{9, 0}));
  EXPECT_EQ(read(R"({"eos_token_id": null})", "{}").ends, Tokens());
  EXPECT_EQ(read("{}", "{}").begin, -1);
  // A small model that keeps the tokens of a large one in its files.
  EXPECT_EQ(read(R"({"bos_token_id": 50256, "eos_token_id": [50256, 99]})", "{}").begin, -1);
  EXPECT_EQ(read(R"({"eos_token_id": [50256, 99, -1]})", "{}").ends, Tokens{99});
  try {
    read(R"({"eos_token_id": ["</s>"]})", "{}");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()),
              folder.path() +
                  "/generation_config.json: eos_token_id = a list, but it must be a "
                  "token or a list of tokens");
  }
  fs::remove(folder.path() + "/generation_config.json");
  EXPECT_EQ(checkpoint::read_generation_tokens(folder.path(), 100).begin, -1);
}

}  // namespace
}  // namespace fourfold::test
