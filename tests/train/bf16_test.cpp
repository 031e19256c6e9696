// What bf16 computes against float64: logits, losses, norms and every gradient of a GPT on many
// grids, with sums of many passes, and several steps of training. The reference is libtorch's own
// arithmetic in float64, from the same values of the weights.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/base/processor.hpp"
#include "fourfold/train/trainer.hpp"

#include "tests/model/compare.hpp"
#include "tests/train/reference_training.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using model::GptSpec;
using nn::Activations;
using Recipe = GptRecipe;

// A number of bf16 has 8 bits: it is wrong by up to 1/256. Errors of tensors are those of an
// element, of the largest element of the tensor; products of a few layers add some up. Native
// products on a processor without AVX-512 round partial sums too (docs/decisions/006).
const bool kNative = takes_special_way(Choice::kBf16Products);
const double kElements = kNative ? 0.15 : 0.06;
const double kNorm = kNative ? 0.05 : 0.015;

GptSpec spec_of(std::int64_t heads) {
  GptSpec spec;
  spec.vocabulary = 37;
  spec.width = 4 * heads;
  spec.heads = heads;
  spec.layers = 2;
  spec.context = 8;
  spec.dropout = 0.2;
  spec.execution.precision = nn::Precision::bf16();
  spec.execution.seed = 11;
  return spec;
}

void expect_near_float64(const grid::Sizes& sizes, const GptSpec& spec, std::int64_t passes) {
  run_case({.sizes = sizes,
            .spec = spec,
            .samples = 8 * passes,
            .passes = passes,
            .tolerance = kElements,
            .loss_tolerance = kNorm});
}

std::vector<grid::Sizes> some_grids() {
  std::vector<grid::Sizes> all =
      grid::factorisations(4, {Axis::kX, Axis::kY, Axis::kZ, Axis::kData});
  for (const grid::Sizes& sizes :
       {grid::Sizes{.x = 2, .y = 2, .z = 2}, grid::Sizes{.x = 2, .z = 4},
        grid::Sizes{.y = 4, .z = 2}, grid::Sizes{.x = 2, .z = 2, .data = 2}, grid::Sizes{.z = 8}}) {
    all.push_back(sizes);
  }
  return all;
}

class Bf16OnGrids : public testing::TestWithParam<grid::Sizes> {};

TEST_P(Bf16OnGrids, IsNearFloat64) {
  for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
    for (const bool checkpoint : {false, true}) {
      GptSpec spec = spec_of(4);
      spec.execution.activations = activations;
      spec.execution.checkpoint = checkpoint;
      spec.tied = !checkpoint;
      expect_near_float64(GetParam(), spec, checkpoint ? 3 : 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gpt, Bf16OnGrids, testing::ValuesIn(some_grids()), [](const auto& test) {
  const grid::Sizes& s = test.param;
  return concat("x", s.x, "y", s.y, "z", s.z, "data", s.data);
});

TEST(Bf16, BySummaIsNearFloat64) {
  GptSpec spec = spec_of(4);
  spec.execution.product = nn::ProductKind::kSumma;
  for (const grid::Sizes& sizes : {grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.z = 2, .data = 2},
                                   grid::Sizes{.x = 2, .y = 2, .z = 2}}) {
    expect_near_float64(sizes, spec, 1);
    expect_near_float64(sizes, spec, 3);
  }
}

// --- sums of many passes

constexpr std::int64_t kPasses = 512;

/// One step of so many passes, of two samples each.
Recipe many_passes() {
  Recipe recipe;
  recipe.model = spec_of(2);
  recipe.model.context = 4;
  recipe.model.dropout = 0;
  recipe.batch = 2 * kPasses;
  recipe.micro_batch = 2;
  return recipe;
}

/// Every gradient, the norm and the loss of a step on the grid.
void expect_sums_of_float64(const grid::Sizes& sizes) {
  const Recipe recipe = many_passes();
  const GptSpec& spec = recipe.model;
  const Weights weights = perturbed(initial_weights(spec));
  // All passes have the same gradient, so that a sum in too narrow a type stops growing.
  const auto repeated = [&](int seed) {
    return some_tokens(2, spec.context, spec.vocabulary, seed).repeat({kPasses, 1});
  };
  const Tensor tokens = repeated(1);
  const Tensor targets = repeated(2);
  const ReferenceResult reference =
      run_reference(spec, in_float64(weights, spec.execution.precision), tokens, targets, 1, true);
  const train::ReadTokens read = [&](std::int64_t sample, std::int64_t* to, std::int64_t* next) {
    const std::int64_t n = spec.context;
    std::copy_n(tokens.data_ptr<std::int64_t>() + sample * n, n, to);
    std::copy_n(targets.data_ptr<std::int64_t>() + sample * n, n, next);
  };
  const grid::Grid grid(sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid);
    train::Trainer trainer(mesh, recipe, [&](const model::Part& gpt) {
      for (const nn::ParameterPtr& p : gpt.parameters()) load(mesh, *p, weights.at(p->name()));
      if (gpt.shared()) load(mesh, *gpt.shared(), weights.at(gpt.shared()->name()));
    });
    const train::StepResult step = trainer.step(1, train::read_tokens(read));
    Worst worst;
    for (const nn::ParameterPtr& p : trainer.stages().parameters()) {
      see_gradient(worst, mesh, *p, reference.gradients.at(p->name()));
    }
    expect_on_all_ranks(world, worst.error <= kElements,
                        concat(grid, ": error ", worst.error, " of ", worst.where));
    expect_on_all_ranks(
        world, std::abs(step.grad_norm / reference.norm - 1) <= kNorm,
        concat(grid, ": a norm of ", step.grad_norm, ", in float64 ", reference.norm));
    expect_on_all_ranks(world, std::abs(step.loss / reference.loss - 1) <= kNorm,
                        concat(grid, ": a loss of ", step.loss, ", in float64 ", reference.loss));
  });
}

/// With stages all passes of a step are under way at once, and a layer's weights are reduced over z
/// once: the gradients of all passes are added up before.
TEST(Bf16, SumsOfManyPassesAreThoseOfFloat64) {
  expect_sums_of_float64({.z = 2, .pipe = 2});
  expect_sums_of_float64({.z = 2});
}

// --- training

TEST(Bf16, TrainingFollowsFloat64) {
  constexpr std::int64_t kSteps = 10;
  Recipe recipe = small_recipe(true, kSteps);
  recipe.model.execution.precision = nn::Precision::bf16();
  const std::vector<train::StepResult> exact = train_reference(recipe, kSteps, read_sample);
  for (const grid::Sizes& sizes :
       {grid::Sizes{}, grid::Sizes{.data = 4}, grid::Sizes{.x = 2, .z = 2},
        grid::Sizes{.z = 2, .pipe = 2}, grid::Sizes{.y = 2, .data = 2}}) {
    const grid::Grid grid(sizes);
    on_threads(grid.ranks(), [&](comm::World& world) {
      const std::string wrong = too_far_from_float64(train_on(world, grid, recipe), exact);
      expect_on_all_ranks(world, wrong.empty(), concat(grid, ", ", wrong));
    });
  }
}

}  // namespace
}  // namespace fourfold::test
