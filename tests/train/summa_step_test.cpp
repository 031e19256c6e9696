// Training steps of a GPT by SUMMA: they follow one rank, a dry run does what a real one does, and
// both communicate what docs/summa.md says.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include "fourfold/train/dry_run.hpp"

#include "tests/support/ranks.hpp"
#include "tests/train/closed_forms.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using tensor::Overlap;
using Recipe = GptRecipe;
using train::StepRecord;
using train::StepResult;

/// 6 heads and samples: for sides of 2 and 3.
Recipe recipe_of(bool tied = true, std::int64_t steps = 6) {
  Recipe recipe = small_recipe(tied, steps);
  recipe.model.heads = 6;
  recipe.batch = 24;
  recipe.micro_batch = 12;
  return recipe;
}

Recipe summa(Recipe recipe) {
  recipe.model.execution.product = nn::ProductKind::kSumma;
  return recipe;
}

const std::vector<grid::Sizes> kGrids = {{},
                                         {.x = 2, .y = 2},
                                         {.x = 2, .y = 2, .data = 3},
                                         {.x = 3, .y = 3},
                                         {.x = 3, .y = 3, .data = 2},
                                         {.z = 3},
                                         {.x = 2, .y = 2, .z = 2},
                                         {.x = 2, .y = 2, .z = 3},
                                         {.x = 3, .y = 3, .z = 2, .data = 2}};

// --- what a step communicates

void compare(comm::World& world, const grid::Grid& grid, const Recipe& recipe) {
  const StepRecord real = train::record_step(world, grid, recipe, small_samples());
  const StepRecord dry = train::dry_run(grid, world.rank(), recipe);
  expect_on_all_ranks(world, real.schedule == dry.schedule, concat(grid, ": schedules differ"));
  const CallsBy expected = closed_form(grid, recipe, world.rank());
  const std::string wrong = difference(counted(real.counts), expected);
  expect_on_all_ranks(world, wrong.empty(), concat(grid, ":\n", wrong));
  expect_on_all_ranks(world, counted(dry.counts) == expected, "counters of the dry run");
}

TEST(SummaStep, ADryRunDoesWhatARealRunDoesAndWhatTheFormsSay) {
  for (const grid::Sizes& sizes : kGrids) {
    const grid::Grid grid(sizes);
    for (const bool checkpoint : {false, true}) {
      for (const Overlap& overlap : {Overlap(), Overlap::none()}) {
        Recipe recipe = summa(recipe_of(!checkpoint));
        recipe.model.execution.checkpoint = checkpoint;
        if (checkpoint) recipe.model.execution.precision = nn::Precision::bf16();
        recipe.overlap = overlap;
        on_threads(grid.ranks(), [&](comm::World& world) { compare(world, grid, recipe); });
      }
    }
  }
}

TEST(SummaStep, PeakOfADryRunIsThatOfARealRun) {
  Recipe recipe = summa(recipe_of());
  recipe.model.vocabulary = 515;
  recipe.model.width = 144;
  const grid::Grid grid({.x = 3, .y = 3});
  on_threads(9, [&](comm::World& world) {
    const StepRecord real = train::record_step(world, grid, recipe, small_samples());
    const StepRecord dry = train::dry_run(grid, world.rank(), recipe);
    for (std::size_t i = 0; i < tensor::kPlannedClasses; ++i) {
      const double a = static_cast<double>(dry.peaks.by_class[i].value());
      const double b = static_cast<double>(real.peaks.by_class[i].value());
      expect_on_all_ranks(
          world, std::abs(a - b) <= 0.01 * b,
          concat(to_string(static_cast<tensor::MemoryClass>(i)), " dry ", a, ", real ", b));
    }
  });
}

// --- training

/// On those of the grids that have the depth that is wanted.
template <class Wanted>
void expect_to_follow(const Wanted& wanted) {
  for (const bool tied : {true, false}) {
    const std::vector<StepResult> alone = train_alone(recipe_of(tied));
    for (const grid::Sizes& sizes : kGrids) {
      if (!wanted(sizes.z)) continue;
      const grid::Grid grid(sizes);
      Recipe recipe = summa(recipe_of(tied));
      recipe.model.execution.checkpoint = !tied;
      on_threads(grid.ranks(), [&](comm::World& world) {
        const double worst = difference(train_on(world, grid, recipe), alone);
        expect_on_all_ranks(world, worst <= 1e-10, concat(grid, ": ", worst));
      });
    }
  }
}

TEST(SummaStep, TrainingInTwoDimensionsFollowsOneRank) {
  expect_to_follow([](int depth) { return depth == 1; });
}

/// The optimizer sums the gradients of weights over the depth.
TEST(SummaStep, TrainingInTwoAndAHalfDimensionsFollowsOneRank) {
  expect_to_follow([](int depth) { return depth > 1; });
}

TEST(SummaStep, WithEveryStageOfZeroAndWithAPipelineItFollowsOneRank) {
  const std::vector<StepResult> alone = train_alone(recipe_of());
  const auto check = [&](const grid::Sizes& sizes, optim::Zero zero) {
    const grid::Grid grid(sizes);
    Recipe recipe = summa(recipe_of());
    recipe.optimizer.zero = zero;
    on_threads(grid.ranks(), [&](comm::World& world) {
      const double worst = difference(train_on(world, grid, recipe), alone);
      expect_on_all_ranks(world, worst <= 1e-10, concat(grid, ": ", worst));
    });
  };
  check({.x = 2, .y = 2, .z = 2}, optim::Zero::kNothing);
  check({.x = 2, .y = 2, .z = 3}, optim::Zero::kGradients);
  check({.x = 2, .y = 2, .z = 2, .pipe = 2}, optim::Zero::kMoments);
}

TEST(SummaStep, OverlapsChangeNoBit) {
  for (const grid::Sizes& sizes :
       {grid::Sizes{.x = 3, .y = 3}, grid::Sizes{.x = 2, .y = 2, .data = 2}}) {
    const grid::Grid grid(sizes);
    std::vector<StepResult> expected;
    for (int bits = 0; bits < 16; ++bits) {
      Recipe recipe = summa(recipe_of(true, 3));
      recipe.overlap = Overlap::none();
      recipe.overlap.segment = 12000;
      recipe.overlap.panels = (bits & 1) != 0;
      recipe.overlap.input_gradients = (bits & 2) != 0;
      recipe.overlap.weight_gradients = (bits & 4) != 0;
      recipe.overlap.data = (bits & 8) != 0;
      recipe.overlap.window = bits < 8 ? 2000 : 1 << 20;
      std::vector<StepResult> results;
      on_threads(grid.ranks(), [&](comm::World& world) {
        const auto own = train_on(world, grid, recipe);
        if (world.rank() == 0) results = own;
      });
      if (expected.empty()) expected = results;
      ASSERT_EQ(results.size(), expected.size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(results[i].loss, expected[i].loss) << grid << " " << bits;
        EXPECT_EQ(results[i].grad_norm, expected[i].grad_norm) << grid << " " << bits;
      }
    }
  }
}

TEST(SummaStep, ValidationIsThatOfOneRank) {
  const auto validate = [](comm::World& world, const grid::Grid& grid, const Recipe& recipe) {
    const tensor::Mesh mesh(world, grid);
    return train::Trainer(mesh, recipe).validate(3, small_samples());
  };
  double expected = 0;
  on_threads(1, [&](comm::World& world) { expected = validate(world, grid::Grid(), recipe_of()); });
  for (const grid::Sizes& sizes : kGrids) {
    const grid::Grid grid(sizes);
    on_threads(grid.ranks(), [&](comm::World& world) {
      const double loss = validate(world, grid, summa(recipe_of()));
      expect_on_all_ranks(world, std::abs(loss / expected - 1) < 1e-10, concat(grid, ": ", loss));
    });
  }
}

}  // namespace
}  // namespace fourfold::test
