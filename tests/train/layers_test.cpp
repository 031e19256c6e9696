// Every piece of a step names the layer that it belongs to, in schedules and in timelines.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "fourfold/comm/timeline.hpp"
#include "fourfold/model/llama.hpp"
#include "fourfold/model/unet.hpp"
#include "fourfold/tensor/node_watch.hpp"
#include "fourfold/train/dry_run.hpp"

#include "tests/model/unet_reference.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/gpt_recipe.hpp"

namespace fourfold::test {
namespace {

GptRecipe small_recipe(nn::ProductKind product) {
  GptRecipe recipe;
  recipe.model.vocabulary = 36;
  recipe.model.width = 24;
  recipe.model.heads = 4;
  recipe.model.layers = 2;
  recipe.model.context = 8;
  recipe.model.dropout = 0.1;
  recipe.model.execution.product = product;
  recipe.batch = 8;
  recipe.micro_batch = 8;
  return recipe;
}

/// What belongs to the whole model.
bool is_of_no_layer(const std::string& kind) {
  static const std::set<std::string> kKinds = {"loss maxima", "loss", "loss dI", "adamw",
                                               "norm of gradients"};
  return kKinds.contains(kind);
}

/// Whether the grid decides if a layer does this.
bool only_moves(const std::string& kind) {
  static const std::set<std::string> kKinds = {
      "bias",         "gradient copy", "gradient sum",    "gradient cast", "logits columns",
      "lookup zeros", "pad",           "positions zeros", "sum cast",      "trim"};
  return kKinds.contains(kind);
}

/// The kinds of compute of each layer.
std::map<std::string, std::set<std::string>> kinds_by_layer(const schedule::Schedule& schedule) {
  std::map<std::string, std::set<std::string>> kinds;
  for (const schedule::Step& step : schedule.steps()) {
    const auto* compute = std::get_if<schedule::Compute>(&step);
    if (compute == nullptr) continue;
    EXPECT_EQ(compute->layer.empty(), is_of_no_layer(compute->name)) << compute->name;
    if (!only_moves(compute->name)) kinds[compute->layer].insert(compute->name);
  }
  return kinds;
}

void expect_layers(const grid::Sizes& sizes, nn::ProductKind product) {
  const train::StepRecord record = train::dry_run(grid::Grid(sizes), 0, small_recipe(product));
  const auto kinds = kinds_by_layer(record.schedule);
  const std::set<std::string> products = {"bias dB", "linear", "linear dI", "linear dW"};
  for (const char* layer : {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}) {
    for (const char* block : {"h.0.", "h.1."}) {
      const auto found = kinds.find(std::string(block) + layer);
      ASSERT_NE(found, kinds.end()) << block << layer;
      EXPECT_EQ(found->second, products) << block << layer;
    }
  }
  const std::set<std::string> attention = {"attention", "attention dI", "dropout", "dropout dI"};
  EXPECT_EQ(kinds.at("h.1.attn"), attention);
  EXPECT_EQ(kinds.at("h.0.mlp"),
            (std::set<std::string>{"dropout", "dropout dI", "gelu", "gelu dI"}));
  EXPECT_EQ(kinds.at("h.0"), (std::set<std::string>{"residual", "residual dI"}));
  EXPECT_TRUE(kinds.at("h.1.ln_2").contains("norm dI"));
  EXPECT_TRUE(kinds.at("ln_f").contains("norm"));
  EXPECT_EQ(kinds.at("wte"),
            (std::set<std::string>{"logits", "logits dE", "logits dI", "lookup", "lookup dE"}));
  EXPECT_EQ(kinds.at("wpe"), (std::set<std::string>{"positions", "positions dE"}));
}

TEST(Layers, AreNamedInSchedules) {
  expect_layers({}, nn::ProductKind::k4d);
  expect_layers({.x = 2, .y = 2, .z = 2, .data = 2}, nn::ProductKind::k4d);
  expect_layers({.x = 2, .y = 2}, nn::ProductKind::kSumma);
}

/// Operations along data carry the gradients and weights of many layers, those of all ranks the
/// norm; all others are some layer's.
void expect_issuers(const grid::Sizes& sizes, nn::ProductKind product) {
  const grid::Grid grid(sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    GptRecipe recipe = small_recipe(product);
    recipe.overlap.window = 9000;  // several under way at once
    tensor::Mesh mesh(world, grid, recipe.overlap);
    train::Trainer trainer(mesh, recipe);
    comm::Timeline timeline;
    comm::Observation observation = world.observe(timeline);
    timeline.begin_step(1);
    const train::ReadTokens read = [](std::int64_t sample, std::int64_t* tokens,
                                      std::int64_t* targets) {
      for (std::int64_t i = 0; i < 8; ++i) {
        tokens[i] = (sample + i) % 36;
        targets[i] = (sample + 3 * i) % 36;
      }
    };
    trainer.step(1, train::read_tokens(read));
    timeline.end_step();
    trainer.finish();
    observation.stop();
    std::string wrong;
    std::set<std::string> layers;
    for (const comm::Span& span : timeline.spans()) {
      if (span.kind == comm::Span::Kind::kCompute || span.axes == "data" || span.axes == "all") {
        continue;
      }
      layers.insert(span.layer);
      if (span.layer.empty()) wrong = concat(span.name, " over ", span.axes);
    }
    expect_on_all_ranks(world, wrong.empty(), concat("nobody's: ", wrong));
    for (const char* layer : {"h.0.mlp.c_fc", "h.1.attn.c_proj", "wte", "loss"}) {
      expect_on_all_ranks(world, layers.contains(layer), concat(layer, " communicates"));
    }
  });
}

TEST(Layers, AreNamedByTheirOperations) {
  expect_issuers({.x = 2, .y = 2}, nn::ProductKind::k4d);
  expect_issuers({.x = 2, .z = 2}, nn::ProductKind::k4d);
  expect_issuers({.x = 2, .y = 2}, nn::ProductKind::kSumma);
}

/// The layers of the nodes that it sees.
class SeenLayers final : public tensor::NodeWatch {
 public:
  void results(std::string_view layer, const tensor::variable_list&) override {
    forward.emplace(layer);
  }
  void gradients(std::string_view layer, const tensor::variable_list&) override {
    backward.emplace(layer);
  }
  void rows(const Tensor&, std::int64_t, std::int64_t) override { ++shown; }

  std::set<std::string> forward;
  std::set<std::string> backward;
  int shown = 0;
};

/// Every layer that computes in a pass must have nodes of its name, which those who watch can see.
void expect_seen(const grid::Sizes& sizes, const train::Recipe& recipe) {
  SeenLayers seen;
  const train::StepRecord record = train::dry_run(grid::Grid(sizes), 0, recipe);
  for (const schedule::Step& step : record.schedule.steps()) {
    const auto* compute = std::get_if<schedule::Compute>(&step);
    if (compute == nullptr || compute->layer.empty()) continue;
    if (only_moves(compute->name)) continue;
    if (compute->name == "sinusoids") continue;  // of the data alone
    if (compute->phase == schedule::Phase::kForward) {
      EXPECT_TRUE(seen.forward.contains(compute->layer)) << compute->layer << " " << compute->name;
    } else if (compute->phase == schedule::Phase::kBackward) {
      EXPECT_TRUE(seen.backward.contains(compute->layer)) << compute->layer << " " << compute->name;
    }
  }
  EXPECT_TRUE(seen.forward.contains("loss"));
  EXPECT_GT(seen.shown, 6) << "forward and backward, between blocks and at the end";
}

TEST(Layers, AreNamedByTheirNodes) {
  const grid::Sizes cube{.x = 2, .y = 2, .z = 2};
  for (const grid::Sizes& sizes : {grid::Sizes{}, cube}) {
    for (const bool again : {false, true}) {
      GptRecipe recipe = small_recipe(nn::ProductKind::k4d);
      recipe.model.execution.checkpoint = again;
      expect_seen(sizes, recipe);
    }
  }
  expect_seen({.x = 2, .y = 2}, small_recipe(nn::ProductKind::kSumma));
  model::LlamaSpec llama;
  llama.vocabulary = 36;
  llama.width = 32;
  llama.heads = 8;
  llama.kv_heads = 2;
  llama.hidden = 40;
  llama.layers = 2;
  llama.context = 8;
  train::Recipe recipe = small_recipe(nn::ProductKind::k4d);
  recipe.model = std::make_shared<model::LlamaModel>(llama);
  expect_seen(cube, recipe);
  recipe.model = std::make_shared<model::UNetModel>(small_unet());
  expect_seen(cube, recipe);
}

}  // namespace
}  // namespace fourfold::test
