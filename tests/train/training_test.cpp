// Twenty steps of training: every grid follows one rank, and one rank follows libtorch.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <ATen/ops/allclose.h>
#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/train/not_finite.hpp"
#include "fourfold/train/trainer.hpp"

#include "tests/support/ranks.hpp"
#include "tests/train/reference_training.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;
using grid::Axis;
using nn::Activations;
using Recipe = GptRecipe;
using train::StepResult;

constexpr std::int64_t kSteps = 20;

Recipe recipe_of(bool tied = true) {
  return small_recipe(tied, kSteps);
}

TEST(Training, OneRankFollowsLibtorch) {
  for (const bool tied : {true, false}) {
    const Recipe recipe = recipe_of(tied);
    const std::vector<StepResult> ours = train_alone(recipe);
    const std::vector<StepResult> plain = train_reference(recipe, kSteps, read_sample);
    EXPECT_LE(difference(ours, plain), 1e-10);
    // Otherwise the test would show little.
    EXPECT_LT(ours.back().loss, 0.9 * ours.front().loss);
    bool clipped = false;
    bool whole = false;
    for (const StepResult& step : ours) (step.grad_norm > recipe.clip ? clipped : whole) = true;
    EXPECT_TRUE(clipped && whole);
  }
}

class TrainingOnGridsOf8 : public testing::TestWithParam<grid::Sizes> {};

TEST_P(TrainingOnGridsOf8, FollowsOneRank) {
  static const std::vector<StepResult> kAlone = train_alone(recipe_of());
  const grid::Grid grid(GetParam());
  for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
    for (const bool checkpoint : {false, true}) {
      Recipe recipe = recipe_of();
      recipe.model.execution.activations = activations;
      recipe.model.execution.checkpoint = checkpoint;
      on_threads(8, [&](comm::World& world) {
        const double worst = difference(train_on(world, grid, recipe), kAlone);
        expect_on_all_ranks(world, worst <= 1e-10, concat(grid, ": ", worst));
      });
    }
  }
}

std::string name_of(const testing::TestParamInfo<grid::Sizes>& info) {
  const grid::Sizes& s = info.param;
  return concat("x", s.x, "y", s.y, "z", s.z, "data", s.data);
}

INSTANTIATE_TEST_SUITE_P(Gpt, TrainingOnGridsOf8,
                         testing::ValuesIn(grid::factorisations(8, {Axis::kX, Axis::kY, Axis::kZ,
                                                                    Axis::kData})),
                         name_of);

TEST(Training, OnMoreGrids) {
  const std::vector<StepResult> alone = train_alone(recipe_of(false));
  for (const grid::Sizes& sizes : {grid::Sizes{.x = 1, .y = 4, .z = 2, .data = 2},
                                   grid::Sizes{.x = 2, .y = 4, .z = 4, .data = 2}}) {
    const grid::Grid grid(sizes);
    on_threads(grid.ranks(), [&](comm::World& world) {
      const double worst = difference(train_on(world, grid, recipe_of(false)), alone);
      expect_on_all_ranks(world, worst <= 1e-10, concat(grid, ": ", worst));
    });
  }
}

TEST(Training, TwoRunsAreBitEqual) {
  for (const nn::Precision precision :
       {nn::Precision::float32(), nn::Precision::bf16(), nn::Precision::float64()}) {
    Recipe recipe = recipe_of();
    recipe.model.execution.precision = precision;
    std::vector<StepResult> runs[2];
    for (std::vector<StepResult>& run : runs) {
      on_threads(4, [&](comm::World& world) {
        const auto results = train_on(world, grid::Grid({.x = 2, .data = 2}), recipe);
        if (world.rank() == 0) run = results;
      });
    }
    for (std::size_t i = 0; i < kSteps; ++i) {
      EXPECT_EQ(runs[0][i].loss, runs[1][i].loss);
      EXPECT_EQ(runs[0][i].grad_norm, runs[1][i].grad_norm);
    }
  }
}

/// Every rank must come to the same loss, and it must not depend on dropout.
TEST(Training, ValidationOnGrids) {
  const Recipe recipe = recipe_of();
  Recipe without = recipe;
  without.model.dropout = 0;
  const auto validate = [](comm::World& world, const grid::Grid& grid, const Recipe& given) {
    const tensor::Mesh mesh(world, grid);
    return train::Trainer(mesh, given).validate(3, small_samples());
  };
  comm::World alone = comm::self::open();
  const double expected = validate(alone, grid::Grid(), without);
  EXPECT_NEAR(expected, std::log(37.0), 0.1);
  for (const bool checkpoint : {false, true}) {
    Recipe given = recipe;
    given.model.execution.checkpoint = checkpoint;
    for (const grid::Sizes& sizes :
         {grid::Sizes{.x = 2, .y = 2, .z = 2}, grid::Sizes{.y = 2, .data = 4}}) {
      on_threads(8, [&](comm::World& world) {
        const double loss = validate(world, grid::Grid(sizes), given);
        expect_on_all_ranks(world, std::abs(loss / expected - 1) < 1e-10, concat(loss));
      });
    }
  }
}

/// What step 1 says when rank `who` of 4 (y=2, data=2) does `harm` to the model.
template <class Harm>
void expect_stop(int who, const Harm& harm, const std::string& message) {
  on_threads(4, [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid::Grid({.y = 2, .data = 2}));
    train::Trainer trainer(mesh, recipe_of());
    trainer.step(1, small_samples());
    trainer.finish();
    if (world.rank() == who) harm(trainer.model());
    const std::vector<nn::ParameterPtr> parameters = trainer.model().parameters();
    std::vector<Tensor> before;
    for (const auto& p : parameters) before.push_back(p->value().detach().clone());
    std::string said;
    try {
      trainer.step(2, small_samples());
    } catch (const Error& error) {
      said = error.what();
    }
    expect_on_all_ranks(world, said.find(message) == 0, said);
    bool same = true;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i]->wait_for_values();
      same &= at::allclose(parameters[i]->value(), before[i], 0, 0, /*equal_nan=*/true);
    }
    expect_on_all_ranks(world, same, "a parameter has changed");
  });
}

TEST(Training, StopsBeforeTheUpdateWhenAParameterIsNotFinite) {
  expect_stop(
      2, [](const model::Part& gpt) { gpt.parameters()[4]->value().detach().view(-1)[0] = NAN; },
      "step 2: the parameter h.0.attn.c_attn.weight is not finite on rank 2; nothing was updated");
}

TEST(Training, StopsBeforeTheUpdateWhenTheLossIsNotFinite) {
  // Finite, but too large for their products.
  const auto harm = [](const model::Part& gpt) {
    gpt.parameters().back()->value().detach().fill_(1e308);
    gpt.parameters()[0]->value().detach().fill_(1e308);
  };
  on_threads(4, [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid::Grid({.data = 4}));
    train::Trainer trainer(mesh, recipe_of());
    if (world.rank() == 3) harm(trainer.model());
    std::string said;
    try {
      trainer.step(1, small_samples());
    } catch (const Error& error) {
      said = error.what();
    }
    expect_on_all_ranks(world, said.find("step 1: the loss is not finite on rank 3;") == 0, said);
  });
}

/// What is said when rank 1 of two along data has the gradient of parameter 16 wrong at `element`,
/// and both have parameter 4's, which the backward pass meets later.
void expect_blame(std::int64_t element) {
  on_threads(2, [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid::Grid({.data = 2}));
    const model::Stages stages(mesh, std::make_shared<model::GptModel>(recipe_of().model), 8);
    const nn::Parameters parameters = stages.parameters();
    optim::AdamW optimizer(mesh, parameters, {});
    tensor::InFlight in_flight(mesh);
    optim::AdamW::Step step = optimizer.begin_step(in_flight);
    step.begin_pass();
    for (const nn::ParameterPtr& p : parameters) {
      const std::shared_ptr<nn::Parameter::Use> use = p->use(in_flight);
      use->slot(at::kDouble).tensor.zero_();
      if (p == parameters[4]) p->gradient().fill_(INFINITY);
      if (p == parameters[16] && world.rank() == 1) p->gradient().view(-1)[element] = NAN;
      use->end();
    }
    EXPECT_FALSE(std::isfinite(step.reduce_gradients().item<double>()));
    const train::NotFinite found = train::find_not_finite(mesh, stages, optimizer, 1.5);
    const std::string expected =
        concat("the gradient of ", parameters[16]->name(), " is not finite on rank 1");
    expect_on_all_ranks(world, train::describe(found) == expected, train::describe(found));
    expect_on_all_ranks(world, !found.parameter, "it is a gradient");
  });
}

TEST(Training, BlamesTheRankThatHadTheBadGradient) {
  expect_blame(0);
  expect_blame(24 * 3 * 24 - 1);
}

TEST(Training, ModelFlopsAreTheUsualCount) {
  model::GptSpec spec;
  spec.vocabulary = 8192;
  spec.width = 512;
  spec.heads = 8;
  spec.layers = 6;
  spec.context = 256;
  const double used = 8192.0 * 512 + 6 * 12 * 512.0 * 512;
  const double expected = 2048 * (6 * used + 12.0 * 6 * 512 * 256);
  EXPECT_DOUBLE_EQ(model::GptModel(spec).flops(8).value(), expected);
}

}  // namespace
}  // namespace fourfold::test
