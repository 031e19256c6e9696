// Training in stages along pipe, alone and with the other axes: every grid follows one rank.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/pipeline.hpp"

#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/trainer.hpp"

#include "tests/support/ranks.hpp"
#include "tests/train/closed_forms.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using Recipe = GptRecipe;
using train::StepResult;

constexpr std::int64_t kSteps = 10;

/// Five layers, so that no number of stages divides them; four passes a step.
Recipe deep_recipe(bool tied = true) {
  Recipe recipe = small_recipe(tied, kSteps);
  recipe.model.layers = 5;
  recipe.micro_batch = 4;
  return recipe;
}

const std::vector<StepResult>& alone(bool tied) {
  static const std::vector<StepResult> kTied = train_alone(deep_recipe(true));
  static const std::vector<StepResult> kUntied = train_alone(deep_recipe(false));
  return tied ? kTied : kUntied;
}

void follow(const grid::Sizes& sizes, const Recipe& recipe) {
  const grid::Grid grid(sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    const double worst = difference(train_on(world, grid, recipe), alone(recipe.model.tied));
    expect_on_all_ranks(world, worst <= 1e-10,
                        concat(grid, ", ", recipe.chunks, " chunks: ", worst));
  });
}

TEST(Pipeline, AloneFollowsOneRank) {
  for (const bool tied : {true, false}) {
    for (const int places : {2, 3, 4, 5}) follow({.pipe = places}, deep_recipe(tied));
  }
}

TEST(Pipeline, InterleavedFollowsOneRank) {
  for (const bool tied : {true, false}) {
    Recipe recipe = deep_recipe(tied);
    recipe.chunks = 2;
    follow({.pipe = 2}, recipe);
  }
}

TEST(Pipeline, WithEveryOtherAxis) {
  for (const grid::Sizes& sizes :
       {grid::Sizes{.x = 2, .pipe = 2}, grid::Sizes{.y = 2, .pipe = 2},
        grid::Sizes{.z = 2, .pipe = 2}, grid::Sizes{.data = 2, .pipe = 2},
        grid::Sizes{.x = 2, .y = 2, .pipe = 2}, grid::Sizes{.z = 2, .data = 2, .pipe = 2},
        grid::Sizes{.y = 2, .data = 2, .pipe = 2}, grid::Sizes{.y = 2, .pipe = 4}}) {
    Recipe recipe = deep_recipe();
    follow(sizes, recipe);
    recipe.overlap = tensor::Overlap::none();
    follow(sizes, recipe);
    recipe.chunks = sizes.pipe == 2 ? 2 : 1;
    recipe.model.execution.checkpoint = true;
    recipe.model.execution.activations = nn::Activations::kReplicated;
    follow(sizes, recipe);
  }
}

TEST(Pipeline, FiveAxes) {
  Recipe recipe = deep_recipe();
  recipe.chunks = 2;
  follow({.x = 2, .y = 2, .z = 2, .data = 2, .pipe = 2}, recipe);
}

TEST(Pipeline, EveryStageOfZero) {
  for (const optim::Zero zero : {optim::Zero::kNothing, optim::Zero::kMoments}) {
    Recipe recipe = deep_recipe();
    recipe.optimizer.zero = zero;
    follow({.data = 2, .pipe = 2}, recipe);
  }
}

TEST(Pipeline, ValidatesAsOneRank) {
  const Recipe recipe = deep_recipe();
  double expected = 0;
  {
    comm::World world = comm::self::open();
    const tensor::Mesh mesh(world, grid::Grid());
    expected = train::Trainer(mesh, recipe).validate(3, small_samples());
  }
  for (const int chunks : {1, 2}) {
    on_threads(4, [&](comm::World& world) {
      const tensor::Mesh mesh(world, grid::Grid({.y = 2, .pipe = 2}));
      Recipe cut = recipe;
      cut.chunks = chunks;
      train::Trainer trainer(mesh, cut);
      const double loss = trainer.validate(3, small_samples());
      expect_on_all_ranks(world, std::abs(loss / expected - 1) <= 1e-12,
                          concat(loss, " against ", expected));
    });
  }
}

TEST(Pipeline, TheDryRunDoesWhatARealRunDoes) {
  for (const grid::Sizes& sizes : {grid::Sizes{.pipe = 4}, grid::Sizes{.z = 2, .pipe = 2},
                                   grid::Sizes{.x = 2, .data = 2, .pipe = 2}}) {
    for (const bool overlaps : {true, false}) {
      const grid::Grid grid(sizes);
      Recipe recipe = deep_recipe();
      if (!overlaps) recipe.overlap = tensor::Overlap::none();
      on_threads(grid.ranks(), [&](comm::World& world) {
        const train::StepRecord real = train::record_step(world, grid, recipe, small_samples());
        const train::StepRecord dry = train::dry_run(grid, world.rank(), recipe);
        expect_on_all_ranks(world, real.schedule == dry.schedule, concat(grid, ": schedules"));
        expect_on_all_ranks(world, counted(real.counts) == counted(dry.counts),
                            concat(grid, ": counters"));
      });
    }
  }
}

void expect_closed_form(const grid::Sizes& sizes, const Recipe& recipe) {
  const grid::Grid grid(sizes);
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const CallsBy expected = closed_form(grid, recipe, rank);
    const CallsBy own = counted(train::dry_run(grid, rank, recipe).counts);
    EXPECT_EQ(difference(own, expected), "")
        << grid << ", " << recipe.chunks << " chunks, rank " << rank;
  }
}

TEST(Pipeline, SendsWhatTheClosedFormSays) {
  for (const grid::Sizes& sizes :
       {grid::Sizes{.pipe = 4}, grid::Sizes{.x = 2, .pipe = 2}, grid::Sizes{.y = 2, .pipe = 3},
        grid::Sizes{.z = 2, .pipe = 2}, grid::Sizes{.z = 2, .data = 2, .pipe = 3},
        grid::Sizes{.x = 2, .y = 2, .pipe = 2}, grid::Sizes{.y = 2, .data = 2, .pipe = 2},
        grid::Sizes{.x = 2, .y = 2, .z = 2, .data = 2, .pipe = 2}}) {
    for (const bool tied : {true, false}) {
      Recipe recipe = deep_recipe(tied);
      recipe.model.layers = 7;
      recipe.model.execution.checkpoint = !tied;
      recipe.model.execution.activations =
          tied ? nn::Activations::kReplicated : nn::Activations::kSharded;
      for (const int chunks : {1, 2, 3}) {
        if (chunks > 1 && (4 % sizes.pipe != 0 || chunks * sizes.pipe > 7)) continue;
        recipe.chunks = chunks;
        recipe.overlap = {};
        expect_closed_form(sizes, recipe);
        recipe.overlap.keep_weights = recipe.overlap.halves = false;
        expect_closed_form(sizes, recipe);
        recipe.overlap = tensor::Overlap::none();
        expect_closed_form(sizes, recipe);
      }
    }
  }
}

std::string complaint(const grid::Sizes& sizes, const Recipe& recipe) {
  std::string text;
  on_threads(grid::Grid(sizes).ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid::Grid(sizes));
    try {
      const train::Trainer trainer(mesh, recipe);
    } catch (const ConfigError& error) {
      if (world.rank() == 0) text = error.what();
    }
  });
  return text;
}

TEST(Pipeline, RefusesWhatItCannotDo) {
  Recipe recipe = deep_recipe();
  recipe.chunks = 2;
  recipe.batch = 12;
  EXPECT_EQ(complaint({.pipe = 2}, recipe),
            "with parallel.chunks = 2 the micro-batches of a step (train.batch / "
            "train.micro_batch = 3) must be a multiple of parallel.pipe = 2");
  recipe = deep_recipe();
  recipe.optimizer.zero = optim::Zero::kGradients;
  EXPECT_EQ(complaint({.pipe = 2}, recipe),
            "parallel.zero = 2 does not go with a pipeline, whose passes overlap; choose 1");
  recipe = deep_recipe();
  recipe.chunks = 2;
  EXPECT_EQ(complaint({.data = 2}, recipe),
            "parallel.chunks must be 1 where parallel.pipe is 1, not 2");
  recipe.chunks = 3;
  EXPECT_EQ(complaint({.pipe = 2}, recipe),
            "the pipeline has 6 stages and the model only 5 layers; choose a smaller "
            "parallel.pipe or parallel.chunks");
}

}  // namespace
}  // namespace fourfold::test
