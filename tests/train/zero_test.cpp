// What ranks along data keep a part of does not change what they compute: only bytes and memory.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "fourfold/train/dry_run.hpp"

#include "tests/support/ranks.hpp"
#include "tests/train/closed_forms.hpp"
#include "tests/train/reference_training.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using optim::Zero;
using tensor::MemoryClass;
using Recipe = GptRecipe;

constexpr std::int64_t kSteps = 10;
constexpr std::array kLevels = {Zero::kNothing, Zero::kMoments, Zero::kGradients};

Recipe recipe_of(Zero zero) {
  Recipe recipe = small_recipe(true, kSteps);
  recipe.optimizer.zero = zero;
  recipe.overlap.segment = 20000;  // several travel after each other
  return recipe;
}

const std::vector<grid::Sizes>& grids() {
  static const std::vector<grid::Sizes> kGrids = {{.data = 2},
                                                  {.data = 8},
                                                  {.x = 2, .data = 4},
                                                  {.y = 2, .z = 2, .data = 2},
                                                  {.z = 4, .data = 2}};
  return kGrids;
}

TEST(Zero, EveryLevelFollowsOneRank) {
  const std::vector<train::StepResult> alone = train_alone(small_recipe(true, kSteps));
  for (const Zero zero : kLevels) {
    for (const grid::Sizes& sizes : grids()) {
      for (const bool overlaps : {true, false}) {
        Recipe recipe = recipe_of(zero);
        if (!overlaps) recipe.overlap = tensor::Overlap::none();
        const grid::Grid grid(sizes);
        on_threads(grid.ranks(), [&](comm::World& world) {
          const double worst = difference(train_on(world, grid, recipe), alone);
          expect_on_all_ranks(world, worst <= 1e-10,
                              concat(grid, ", level ", static_cast<int>(zero), ": ", worst));
        });
      }
    }
  }
}

TEST(Zero, SendsWhatTheClosedFormSays) {
  for (const Zero zero : kLevels) {
    for (const grid::Sizes& sizes : grids()) {
      const grid::Grid grid(sizes);
      const Recipe recipe = recipe_of(zero);
      on_threads(grid.ranks(), [&](comm::World& world) {
        const train::StepRecord real = train::record_step(world, grid, recipe, small_samples());
        const train::StepRecord dry = train::dry_run(grid, world.rank(), recipe);
        expect_on_all_ranks(world, real.schedule == dry.schedule, concat(grid, ": schedules"));
        const CallsBy expected = closed_form(grid, recipe, world.rank());
        const std::string wrong = difference(counted(real.counts), expected);
        expect_on_all_ranks(world, wrong.empty(), concat(grid, ":\n", wrong));
      });
    }
  }
}

TEST(Zero, EachLevelKeepsLess) {
  const grid::Grid grid({.data = 8});
  const auto peaks = [&](Zero zero) {
    Recipe recipe = recipe_of(zero);
    recipe.model.layers = 8;
    return train::dry_run(grid, 0, recipe).peaks;
  };
  const auto of = [](const tensor::MemoryUse& use, MemoryClass kind) {
    return static_cast<double>(use[kind].value());
  };
  const tensor::MemoryUse nothing = peaks(Zero::kNothing);
  const tensor::MemoryUse moments = peaks(Zero::kMoments);
  const tensor::MemoryUse gradients = peaks(Zero::kGradients);
  EXPECT_DOUBLE_EQ(of(nothing, MemoryClass::kOptimizer), 8 * of(moments, MemoryClass::kOptimizer));
  EXPECT_EQ(gradients[MemoryClass::kOptimizer], moments[MemoryClass::kOptimizer]);
  EXPECT_EQ(nothing[MemoryClass::kGradients], moments[MemoryClass::kGradients]);
  // An eighth of them, and a few segments of 20000 bytes on their way.
  EXPECT_LT(of(gradients, MemoryClass::kGradients),
            of(moments, MemoryClass::kGradients) / 8 + 5 * 20000 * 1.1);
  EXPECT_LT(of(gradients, MemoryClass::kGradients), of(moments, MemoryClass::kGradients) / 2);
}

/// All levels make the same sums, and these are those of float64 but for the rounding.
TEST(Zero, MixedTypes) {
  Recipe exact = recipe_of(Zero::kMoments);
  exact.model.execution.precision = nn::Precision::bf16();
  exact.batch = exact.micro_batch;
  const std::vector<train::StepResult> reference = train_reference(exact, kSteps, read_sample);
  for (const Zero zero : kLevels) {
    std::vector<train::StepResult> results[2];
    for (int run = 0; run < 2; ++run) {
      Recipe recipe = recipe_of(run == 0 ? Zero::kMoments : zero);
      recipe.model.execution.precision = nn::Precision::bf16();
      recipe.batch = recipe.micro_batch;
      on_threads(4, [&](comm::World& world) {
        const auto mine = train_on(world, grid::Grid({.data = 4}), recipe);
        if (world.rank() == 0) results[run] = mine;
      });
    }
    EXPECT_EQ(too_far_from_float64(results[1], reference), "") << static_cast<int>(zero);
    // An all_reduce takes the summands in another order.
    EXPECT_LE(difference(results[0], results[1]), zero == Zero::kNothing ? 1e-6 : 0)
        << static_cast<int>(zero);
  }
}

/// Values that are given later reach the master copies, of which ranks keep parts: a change too
/// small for bf16 counts from where the given value is, not from where its rounding is.
TEST(Zero, ValuesThatAreAssignedReachTheMasterCopies) {
  constexpr double kStep = 0x1p-7;  // from 1 to the next number of bf16; up to half of it is 1
  for (const Zero zero : kLevels) {
    on_threads(4, [&](comm::World& world) {
      const tensor::Mesh mesh(world, grid::Grid({.z = 2, .data = 2}));
      nn::Parameters parameters;
      for (const char* name : {"a", "b", "c"}) {
        parameters.push_back(
            std::make_shared<nn::Parameter>(mesh,
                                            nn::ParameterSpec{.name = name,
                                                              .shape = {21, 7},
                                                              .gathered = grid::Axis::kZ,
                                                              .summed = grid::Axis::kZ},
                                            nn::Precision::bf16(), 1));
      }
      optim::AdamW optimizer(mesh, parameters, {.decay = 1, .zero = zero});
      for (const nn::ParameterPtr& p : parameters) {
        p->assign(at::full(p->shard_shape(), 1 + 0.45 * kStep, at::kFloat));
        expect_on_all_ranks(world, p->value().eq(1).all().item<bool>(), "is not rounded to 1");
      }
      // Gradients of zero and a negative rate: "decay" lets the values grow by a tenth of a step.
      tensor::InFlight in_flight(mesh);
      optim::AdamW::Step step = optimizer.begin_step(in_flight);
      step.begin_pass();
      for (const nn::ParameterPtr& p : parameters) {
        const auto use = p->use(in_flight);
        use->slot(at::kBFloat16).tensor.zero_();
        use->end();
      }
      step.reduce_gradients();
      step.update(1, -0.1 * kStep, 1);
      for (const nn::ParameterPtr& p : parameters) {
        p->wait_for_values();
        expect_on_all_ranks(world, p->value().eq(1 + kStep).all().item<bool>(),
                            concat(p->name(), ", level ", static_cast<int>(zero)));
      }
    });
  }
}

}  // namespace
}  // namespace fourfold::test
