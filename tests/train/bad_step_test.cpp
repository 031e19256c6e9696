// Steps with a number that is not finite: the layer, rank, micro-batch and sample where it began
// are named, nothing is updated, and training goes on without the step if that is wanted.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/bad_step.hpp"

#include <cmath>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"
#include "fourfold/model/llama.hpp"
#include "fourfold/model/unet.hpp"
#include "fourfold/tensor/node_watch.hpp"
#include "fourfold/train/pass_scope.hpp"
#include "fourfold/train/replicas.hpp"

#include "tests/model/unet_reference.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using train::Recipe;
using train::StepResult;

/// An element that becomes NaN.
struct Fault {
  std::string layer;
  std::int64_t row = 0;
  std::int64_t micro_batch = 0;
  int rank = 0;
  bool backward = false;
  int part = 0;  ///< of the parts in which a batch goes through the layer
  int parts = 1;
  bool once = false;  ///< only in the first run of the step
  std::int64_t step = 2;
};

/// Brings the fault into what a layer has computed.
class Injector final : public tensor::NodeWatch {
 public:
  Injector(const Fault& fault, int rank) : fault_(fault), armed_(fault.rank == rank) {}

  void begin_step(std::int64_t step) {
    step_ = step;
    calls_.clear();
  }
  int injected() const { return injected_; }

  void results(std::string_view layer, const tensor::variable_list& results) override {
    if (!fault_.backward) meet(layer, results);
  }
  void gradients(std::string_view layer, const tensor::variable_list& gradients) override {
    if (fault_.backward) meet(layer, gradients);
  }
  void rows(const Tensor&, std::int64_t, std::int64_t) override {}

 private:
  void meet(std::string_view layer, const tensor::variable_list& tensors) {
    const std::int64_t micro_batch = train::PassScope::current().micro_batch;
    if (!armed_ || layer != fault_.layer || micro_batch != fault_.micro_batch) return;
    const Tensor& tensor = tensors.front();
    if (step_ != fault_.step || !tensor.defined() || tensor.numel() == 0) return;
    if (calls_[micro_batch]++ % fault_.parts != fault_.part) return;
    if (fault_.once && injected_ > 0) return;
    ++injected_;
    // Not as an operation on the tensor, which the graph would notice.
    tensor.data_ptr<double>()[fault_.row * tensor.stride(0)] = NAN;
  }

  Fault fault_;
  bool armed_;
  std::int64_t step_ = 0;
  int injected_ = 0;
  std::map<std::int64_t, int> calls_;
};

void read(std::int64_t sample, std::span<const Tensor> data) {
  if (data.size() == 2) return small_samples()(sample, data);
  data[0].copy_(some_images(small_unet(), sample, 1)[0]);
}

Recipe gpt_recipe(std::int64_t micro_batch = 8, std::int64_t layers = 2) {
  GptRecipe recipe = small_recipe(true, 6);
  recipe.micro_batch = micro_batch;
  recipe.model.layers = layers;
  return recipe;
}

/// What the second step says when it has the fault; all parameters must stay as they were.
void expect_found(const grid::Sizes& sizes, const Recipe& recipe, const Fault& fault,
                  const std::vector<std::string>& words) {
  const grid::Grid grid(sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid, recipe.overlap);
    train::Trainer trainer(mesh, recipe);
    trainer.step(1, read);
    trainer.finish();
    std::vector<Tensor> before;
    for (const optim::StatePiece& piece : trainer.state(optim::StateOf::kOwn)) {
      for (const Tensor& one : {piece.value, piece.mean, piece.square}) {
        before.push_back(one.clone());
      }
    }
    Injector injector(fault, world.rank());
    injector.begin_step(2);
    std::string said;
    try {
      trainer.step(2, read);
    } catch (const Error& error) {
      said = error.what();
    }
    expect_on_all_ranks(world, world.rank() != fault.rank || injector.injected() > 0,
                        fault.layer + " has no such result");
    for (const std::string& text : words) {
      expect_on_all_ranks(world, said.find(text) != std::string::npos,
                          concat(sizes, ": not \"", text, "\" in: ", said));
    }
    bool same = true;
    std::size_t next = 0;
    for (const optim::StatePiece& piece : trainer.state(optim::StateOf::kOwn)) {
      for (const Tensor& one : {piece.value, piece.mean, piece.square}) {
        same &= one.equal(before[next++]);
      }
    }
    expect_on_all_ranks(world, same, "weights or moments have changed");
  });
}

constexpr const char* kReproducible =
    "the same in a second run of the step (reproducible), first in ";

std::string place(const std::string& what, int rank, const std::string& pass,
                  std::int64_t micro_batch, std::int64_t sample) {
  return concat(what, " on rank ", rank, " on this process, in the ", pass, " pass of micro-batch ",
                micro_batch, ", sample ", sample, " of the step (", 16 + sample, " of the run)");
}

TEST(BadStep, NamesLayerRankAndSample) {
  // Each rank has 4 samples of a micro-batch, in two halves of 2, with 8 rows each.
  expect_found({.x = 2, .data = 2}, gpt_recipe(),
               {.layer = "h.1.ln_1", .row = 9, .micro_batch = 1, .rank = 3, .part = 1, .parts = 2},
               {"step 2: the loss is not finite on rank 2; ",
                kReproducible + place("the output of h.1.ln_1", 3, "forward", 1, 8 + 4 + 2 + 1),
                "; nothing was updated. Try a smaller optim.lr"});
  // 8 samples in two halves of 4; the rows of a half are split over y.
  Recipe checkpointed = [] {
    GptRecipe recipe = gpt_recipe();
    recipe.model.execution.checkpoint = true;
    return Recipe(recipe);
  }();
  expect_found({.y = 2}, checkpointed, {.layer = "h.0.ln_2", .row = 5, .rank = 1, .parts = 2},
               {kReproducible + place("the output of h.0.ln_2", 1, "forward", 0, 2)});
  // The rows inside of the network are others: the rank that has the sample's rows after it helps.
  expect_found({.x = 2, .y = 2}, gpt_recipe(),
               {.layer = "h.0.mlp.c_fc", .row = 8, .rank = 2, .parts = 2},
               {"first in the output of h.0.mlp.c_fc on rank 2", "micro-batch 0, sample 1 of"});
  // SUMMA has no halves.
  GptRecipe summa = gpt_recipe();
  summa.model.execution.product = nn::ProductKind::kSumma;
  expect_found({.x = 2, .y = 2}, summa, {.layer = "h.0.ln_1", .rank = 2},
               {kReproducible + place("the output of h.0.ln_1", 2, "forward", 0, 4)});
}

TEST(BadStep, NamesWhereTheBackwardPassWentWrong) {
  const Fault fault{.layer = "h.1.ln_2", .row = 20, .micro_batch = 1, .rank = 1, .backward = true};
  expect_found({.data = 2}, gpt_recipe(), fault,
               {"step 2: the gradient of h.",
                kReproducible + place("a gradient in h.1.ln_2", 1, "backward", 1, 8 + 4 + 2)});
}

TEST(BadStep, NamesTheStageOfAPipeline) {
  // The first stages are on ranks 0 and 1. Each rank has 2 samples of a micro-batch.
  expect_found({.data = 2, .pipe = 2}, gpt_recipe(4),
               {.layer = "h.0.ln_2", .row = 3, .micro_batch = 2, .rank = 1},
               {kReproducible + place("the output of h.0.ln_2", 1, "forward", 2, 8 + 2)});
  expect_found({.data = 2, .pipe = 2}, gpt_recipe(4),
               {.layer = "h.1.ln_1", .row = 15, .micro_batch = 3, .rank = 2, .backward = true},
               {kReproducible + place("a gradient in h.1.ln_1", 2, "backward", 3, 12 + 1)});
  Recipe chunks = gpt_recipe(4, 4);
  chunks.chunks = 2;
  expect_found({.pipe = 2}, chunks, {.layer = "h.2.ln_2", .row = 8, .micro_batch = 1},
               {kReproducible + place("the output of h.2.ln_2", 0, "forward", 1, 4 + 1)});
}

TEST(BadStep, NamesLayersOfOtherModels) {
  model::LlamaSpec llama;
  llama.vocabulary = 37;
  llama.width = 32;
  llama.heads = 8;
  llama.kv_heads = 4;
  llama.hidden = 40;
  llama.layers = 2;
  llama.context = 8;
  llama.execution.precision = nn::Precision::float64();
  Recipe recipe = gpt_recipe();
  recipe.model = std::make_shared<model::LlamaModel>(llama);
  expect_found({.z = 2}, recipe,
               {.layer = "model.layers.1.post_attention_layernorm", .row = 31, .rank = 1},
               {kReproducible + place("the output of model.layers.1.post_attention_layernorm", 1,
                                      "forward", 0, 4 + 3)});
  model::UNetSpec unet = small_unet();
  unet.execution.precision = nn::Precision::float64();
  recipe.model = std::make_shared<model::UNetModel>(unet);
  const std::int64_t pixels = unet.image * unet.image;
  expect_found({.data = 2}, recipe,
               {.layer = "input_blocks.0.0", .row = 3 * pixels + 1, .micro_batch = 1, .rank = 1},
               {kReproducible + place("the output of input_blocks.0.0", 1, "forward", 1, 12 + 3)});
}

TEST(BadStep, TellsAFaultThatPassesFromOneThatStays) {
  const Fault once{.layer = "h.1.ln_1", .micro_batch = 1, .rank = 1, .once = true};
  const std::string words =
      "step 2: the loss is not finite on rank 1; a second run of the step had finite numbers "
      "(transient: memory or a processor may be faulty); nothing was updated";
  expect_found({.data = 2}, gpt_recipe(), once, {words});
}

TEST(BadStep, NamesAReplicaWhoseWeightsHaveChanged) {
  on_threads(3, [&](comm::World& world) {
    Recipe recipe = gpt_recipe();
    recipe.batch = recipe.micro_batch = 6;
    recipe.skip_bad_steps = true;
    const tensor::Mesh mesh(world, grid::Grid({.data = 3}), recipe.overlap);
    train::Trainer trainer(mesh, recipe);
    trainer.finish();
    const nn::ParameterPtr victim = trainer.stages().parameters().at(4);
    if (world.rank() == 2) victim->value().detach().fill_(1e308);
    std::string said;
    try {
      trainer.step(1, read);
    } catch (const Error& error) {
      said = error.what();
    }
    const std::string words = concat("the weights of ", victim->name(), " on rank 2 differ");
    expect_on_all_ranks(world, said.find(words) != std::string::npos, said);
  });
}

/// The steps of a training; of those that are left out only that they are.
std::vector<StepResult> train_with(const grid::Sizes& sizes, const Recipe& recipe,
                                   const Fault& fault) {
  std::vector<StepResult> whole;
  on_threads(grid::Grid(sizes).ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid::Grid(sizes), recipe.overlap);
    train::Trainer trainer(mesh, recipe);
    Injector injector(fault, world.rank());
    std::vector<StepResult> results;
    for (std::int64_t step = 1; step <= recipe.learning_rate.steps; ++step) {
      injector.begin_step(step);
      const StepResult result = trainer.step(step, read);
      const bool left_out = !result.left_out.empty();
      expect_on_all_ranks(world, left_out == (step == fault.step), concat("step ", step));
      if (left_out) {
        const std::string end = "; this step updates nothing";
        expect_on_all_ranks(world, result.left_out.ends_with(end), result.left_out);
        const bool bad = !std::isfinite(result.loss) || !std::isfinite(result.grad_norm);
        expect_on_all_ranks(world, bad, "its loss or norm");
      } else {
        results.push_back(result);
      }
    }
    if (world.rank() == 0) whole = results;
  });
  return whole;
}

TEST(BadStep, GoesOnWithoutItsUpdate) {
  // One rank that never sees the batch of the step.
  comm::World world = comm::self::open();
  const auto without = [&](const Recipe& recipe, std::int64_t left_out) {
    const tensor::Mesh mesh(world, grid::Grid(), recipe.overlap);
    train::Trainer trainer(mesh, recipe);
    std::vector<StepResult> results;
    for (std::int64_t step = 1; step <= recipe.learning_rate.steps; ++step) {
      if (step != left_out) results.push_back(trainer.step(step, read));
    }
    return results;
  };
  Recipe recipe = gpt_recipe(4, 4);
  recipe.skip_bad_steps = true;
  recipe.optimizer.mean_decay = 0.9;
  const std::vector<StepResult> expected = without(recipe, 3);
  ASSERT_EQ(expected.size(), 5U);
  const auto expect_same = [&](const grid::Sizes& sizes, const Recipe& how, Fault fault) {
    fault.step = 3;
    const double worst = difference(train_with(sizes, how, fault), expected);
    EXPECT_LE(worst, 1e-10) << concat(sizes);
  };
  const Fault fault{.layer = "h.0.ln_1", .micro_batch = 1};
  const Fault late{.layer = "h.0.ln_2", .micro_batch = 2, .backward = true};
  expect_same({}, recipe, fault);
  expect_same({.x = 2, .data = 2}, recipe, late);
  expect_same({.x = 2, .z = 2}, recipe, fault);
  Recipe split = recipe;
  split.optimizer.zero = optim::Zero::kGradients;
  expect_same({.data = 4}, split, late);
  split.optimizer.zero = optim::Zero::kNothing;
  expect_same({.y = 2, .data = 2}, split, fault);
  expect_same({.data = 2, .pipe = 2}, recipe, fault);
  Recipe chunks = recipe;
  chunks.chunks = 2;
  expect_same({.x = 2, .pipe = 2}, chunks, late);
  Fault once = fault;
  once.once = true;
  expect_same({.data = 2, .pipe = 2}, recipe, once);
}

TEST(BadStep, EndsARunThatOnlySkips) {
  train::SkippedSteps skipped;
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t step = 1; step < train::SkippedSteps::kMostInARow; ++step) {
      skipped.after(step, true);
    }
    if (round == 0) skipped.after(10, false);
  }
  EXPECT_THROW(skipped.after(20, true), Error);
}

/// Before an update: afterwards, ranks that share the optimizer's state have sent each other their
/// parts of the weights, and nothing differs.
TEST(BadStep, ReplicasAreComparedBeforeTheUpdate) {
  for (const optim::Zero zero : {optim::Zero::kNothing, optim::Zero::kMoments}) {
    on_threads(4, [&](comm::World& world) {
      Recipe recipe = gpt_recipe();
      recipe.optimizer.zero = zero;
      const tensor::Mesh mesh(world, grid::Grid({.data = 4}), recipe.overlap);
      train::Trainer trainer(mesh, recipe);
      const auto difference = [&] { return train::difference_of_replicas(mesh, trainer.stages()); };
      std::string found;
      const auto compare = [&] { found = difference(); };
      trainer.step(1, read, {}, compare);
      expect_on_all_ranks(world, found.empty(), found);
      const nn::ParameterPtr victim = trainer.stages().parameters().at(3);
      victim->wait_for_values();
      auto* bytes = static_cast<char*>(victim->value().data_ptr());
      if (world.rank() == 2) bytes[5] = static_cast<char>(bytes[5] ^ 1);
      trainer.step(2, read, {}, compare);
      const std::string words = concat("the weights of ", victim->name(), " on rank 2 differ");
      expect_on_all_ranks(world, found.find(words) == 0, found);
      const bool healed = difference().empty();
      expect_on_all_ranks(world, healed == (zero == optim::Zero::kMoments), "after the update");
    });
  }
}

}  // namespace
}  // namespace fourfold::test
