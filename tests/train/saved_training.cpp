// SPDX-License-Identifier: Apache-2.0
#include "tests/train/saved_training.hpp"

#include "fourfold/base/text.hpp"
#include "fourfold/model/llama.hpp"
#include "fourfold/model/unet.hpp"

#include "tests/model/unet_reference.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {

std::string shown(const Way& way) {
  return concat(way.sizes, way.summa ? " summa" : "", " zero ", static_cast<int>(way.zero), " ",
                way.chunks, " chunks");
}

namespace {

model::ModelPtr model_of(Kind kind, const Way& way) {
  const auto set = [&](model::Execution& how) {
    how.precision = way.precision;
    how.activations = way.activations;
    if (way.summa) how.product = nn::ProductKind::kSumma;
  };
  if (kind == Kind::kUNet) {
    model::UNetSpec spec = small_unet();
    set(spec.execution);
    return std::make_shared<model::UNetModel>(spec);
  }
  if (kind == Kind::kLlama) {
    model::LlamaSpec spec;
    spec.vocabulary = 37;
    spec.width = 32;
    spec.heads = 8;
    spec.kv_heads = 4;
    spec.hidden = 40;
    spec.layers = 4;
    spec.context = 8;
    set(spec.execution);
    return std::make_shared<model::LlamaModel>(spec);
  }
  model::GptSpec spec = small_recipe(true, kTrainedSteps).model;
  spec.layers = 4;
  set(spec.execution);
  return std::make_shared<model::GptModel>(spec);
}

}  // namespace

train::Recipe recipe_of(Kind kind, const Way& way) {
  train::Recipe recipe = small_recipe(true, kTrainedSteps);
  recipe.model = model_of(kind, way);
  recipe.optimizer.zero = way.zero;
  recipe.optimizer.mean_decay = 0.9;
  recipe.chunks = way.chunks;
  recipe.micro_batch = way.chunks > 1 || way.sizes.pipe > 1 ? 4 : 8;
  return recipe;
}

void read_any(std::int64_t sample, std::span<const at::Tensor> data) {
  if (data.size() == 2) return small_samples()(sample, data);
  data[0].copy_(some_images(small_unet(), sample, 1)[0]);
}

Session::Session(comm::World& world, Kind kind, const Way& way)
    : recipe_(recipe_of(kind, way)),
      mesh_(world, grid::Grid(way.sizes), recipe_.overlap),
      trainer_(mesh_, recipe_) {}

std::vector<train::StepResult> Session::train(std::int64_t from, std::int64_t to) {
  std::vector<train::StepResult> results;
  for (std::int64_t i = from; i <= to; ++i) {
    results.push_back(trainer_.step(i, read_any));
    step_ = i;
    samples_ += recipe_.batch;
  }
  return results;
}

checkpoint::Saved Session::save(const std::filesystem::path& folder,
                                std::optional<std::int64_t> step) {
  checkpoint::Saver saver(mesh_, {.folder = folder});
  saver.begin({.step = step.value_or(step_), .samples = samples_, .train_units = 1, .config = "x"},
              checkpoint::blocks_of(trainer_.state(optim::StateOf::kOnce)));
  return saver.finish().value();
}

checkpoint::Loaded Session::load(const std::filesystem::path& folder) {
  const auto good =
      checkpoint::newest_good(mesh_.world(), mesh_.everyone(), folder, [](const std::string&) {});
  if (!good) throw Error("there is no good checkpoint");
  const checkpoint::Loaded loaded =
      checkpoint::load_state(*good, checkpoint::blocks_of(trainer_.state(optim::StateOf::kOwn)));
  trainer_.restored();
  step_ = good->manifest.step;
  samples_ = good->manifest.samples;
  return loaded;
}

void on_ranks(Kind kind, const Way& way, const std::function<void(comm::World&, Session&)>& body) {
  on_threads(grid::Grid(way.sizes).ranks(), [&](comm::World& world) {
    Session session(world, kind, way);
    body(world, session);
  });
}

}  // namespace fourfold::test
