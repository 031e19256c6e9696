// The running mean of the weights: on every grid, at every level of ZeRO and in pipelines it is the
// one that one process computes from the weights after each step.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"
#include "fourfold/train/dry_run.hpp"

#include "tests/model/compare.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using optim::Zero;
using tensor::MemoryClass;
using Recipe = GptRecipe;

constexpr std::int64_t kSteps = 6;
constexpr double kDecay = 0.45;  // (1 + k) / (10 + k) is less up to step 6

Recipe recipe_of(Zero zero, nn::Precision precision = nn::Precision::float64()) {
  Recipe recipe = small_recipe(true, kSteps);
  recipe.model.execution.precision = precision;
  recipe.optimizer.zero = zero;
  recipe.optimizer.mean_decay = kDecay;
  recipe.overlap.segment = 20000;
  return recipe;
}

Weights values_of(const train::Trainer& trainer) {
  Weights all;
  for (const nn::ParameterPtr& p : trainer.stages().parameters()) {
    all[p->name()] = p->value().detach().clone();
  }
  return all;
}

/// The weights after all steps, and their mean by its definition.
struct Serial {
  Weights last;
  Weights mean;

  explicit Serial(const Recipe& recipe) {
    comm::World world = comm::self::open();
    const tensor::Mesh mesh(world, grid::Grid());
    train::Trainer trainer(mesh, recipe);
    mean = values_of(trainer);
    for (std::int64_t k = 1; k <= kSteps; ++k) {
      trainer.step(k, small_samples());
      trainer.finish();
      last = values_of(trainer);
      const auto number = static_cast<double>(k);
      const double decay = std::min(kDecay, (1 + number) / (10 + number));
      for (auto& [name, value] : mean) value = value.mul(decay).add(last.at(name), 1 - decay);
    }
  }
};

/// The largest difference of this rank's parts.
Worst difference_from(const tensor::Mesh& mesh, const train::Trainer& trainer,
                      const Weights& whole) {
  Worst worst;
  for (const nn::ParameterPtr& p : trainer.stages().parameters()) {
    const Tensor expected = whole.at(p->name());
    const grid::Block block = block_here(mesh, *p);
    worst.see(relative_error(real_part(p->value(), block), block_of(expected, block), expected),
              p->name());
  }
  return worst;
}

void expect_mean(const grid::Sizes& sizes, const Recipe& recipe, const Serial& expected) {
  const grid::Grid grid(sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid, recipe.overlap);
    train::Trainer trainer(mesh, recipe);
    for (std::int64_t k = 1; k <= kSteps; ++k) {
      trainer.step(k, small_samples());
      // To look at the mean in between changes nothing.
      if (k == 3) trainer.with_mean_values([] {});
    }
    Worst mean;
    trainer.with_mean_values([&] { mean = difference_from(mesh, trainer, expected.mean); });
    const Worst last = difference_from(mesh, trainer, expected.last);
    expect_on_all_ranks(world, mean.error <= 1e-10,
                        concat(grid, ", mean of ", mean.where, ": ", mean.error));
    expect_on_all_ranks(world, last.error <= 1e-10,
                        concat(grid, ", value of ", last.where, ": ", last.error));
  });
}

TEST(MeanValues, AreThoseOfOneProcess) {
  const Serial expected(recipe_of(Zero::kMoments));
  EXPECT_FALSE(at::equal(expected.last.begin()->second, expected.mean.begin()->second));
  for (const Zero zero : {Zero::kNothing, Zero::kMoments, Zero::kGradients}) {
    for (const grid::Sizes& sizes :
         {grid::Sizes{}, grid::Sizes{.data = 4}, grid::Sizes{.x = 2, .data = 2},
          grid::Sizes{.y = 2, .z = 2, .data = 2}, grid::Sizes{.x = 2, .y = 2, .z = 2}}) {
      for (const bool overlaps : {true, false}) {
        Recipe recipe = recipe_of(zero);
        if (!overlaps) recipe.overlap = tensor::Overlap::none();
        expect_mean(sizes, recipe, expected);
      }
    }
  }
}

TEST(MeanValues, AreThoseOfOneProcessInPipelines) {
  const Serial expected(recipe_of(Zero::kMoments));
  for (const Zero zero : {Zero::kNothing, Zero::kMoments}) {
    expect_mean({.pipe = 2}, recipe_of(zero), expected);
    expect_mean({.x = 2, .data = 2, .pipe = 2}, recipe_of(zero), expected);
  }
}

/// The last stage's copy of the table follows the exchange: it is the table of the first stage.
TEST(MeanValues, ReachTheCopyOfASharedTable) {
  const Recipe recipe = recipe_of(Zero::kMoments);
  comm::World alone = comm::self::open();
  const auto loss_of_mean = [&](comm::World& world, const grid::Sizes& sizes) {
    const tensor::Mesh mesh(world, grid::Grid(sizes), recipe.overlap);
    train::Trainer trainer(mesh, recipe);
    for (std::int64_t k = 1; k <= kSteps; ++k) trainer.step(k, small_samples());
    double loss = 0;
    trainer.with_mean_values([&] { loss = trainer.validate(2, small_samples()); });
    return loss;
  };
  const double expected = loss_of_mean(alone, {});
  on_threads(4, [&](comm::World& world) {
    const double found = loss_of_mean(world, {.data = 2, .pipe = 2});
    expect_on_all_ranks(world, std::abs(found / expected - 1) < 1e-10,
                        concat(found, ", not ", expected));
  });
}

TEST(MeanValues, LeaveWeightsOfBf16AsTheyWere) {
  for (const Zero zero : {Zero::kNothing, Zero::kMoments, Zero::kGradients}) {
    on_threads(2, [&](comm::World& world) {
      const Recipe recipe = recipe_of(zero, nn::Precision::bf16());
      const tensor::Mesh mesh(world, grid::Grid({.data = 2}), recipe.overlap);
      train::Trainer trainer(mesh, recipe);
      for (std::int64_t k = 1; k <= 2; ++k) trainer.step(k, small_samples());
      trainer.finish();
      const Weights before = values_of(trainer);
      bool differs = false;
      trainer.with_mean_values([&] {
        for (const auto& [name, value] : values_of(trainer)) {
          differs = differs || !at::equal(value, before.at(name));
        }
      });
      expect_on_all_ranks(world, differs, "the mean is not the last value");
      for (const auto& [name, value] : values_of(trainer)) {
        expect_on_all_ranks(world, at::equal(value, before.at(name)), name);
      }
    });
  }
}

TEST(MeanValues, AreMemoryOfTheOptimizerAndPartOfADryRun) {
  const grid::Grid grid({.data = 2});
  on_threads(2, [&](comm::World& world) {
    const Recipe with = recipe_of(Zero::kMoments);
    const train::StepRecord real = train::record_step(world, grid, with, small_samples());
    const train::StepRecord dry = train::dry_run(grid, world.rank(), with);
    expect_on_all_ranks(world, real.schedule == dry.schedule, "schedules");
    expect_on_all_ranks(
        world, real.peaks[MemoryClass::kOptimizer] == dry.peaks[MemoryClass::kOptimizer], "memory");
    Recipe without = with;
    without.optimizer.mean_decay = 0;
    const train::StepRecord less = train::dry_run(grid, world.rank(), without);
    // Three numbers for each weight instead of two.
    expect_on_all_ranks(world,
                        2 * dry.peaks[MemoryClass::kOptimizer].value() ==
                            3 * less.peaks[MemoryClass::kOptimizer].value(),
                        "two moments and the mean");
  });
}

TEST(MeanValues, BeginWithWeightsThatAreLoaded) {
  comm::World world = comm::self::open();
  const tensor::Mesh mesh(world, grid::Grid());
  train::Trainer trainer(mesh, recipe_of(Zero::kMoments), [](const model::Part& part) {
    for (const nn::ParameterPtr& p : part.parameters()) {
      p->fill([](Tensor& rows, const grid::Block&) { rows.fill_(0.5); });
    }
  });
  trainer.with_mean_values([&] {
    for (const auto& [name, value] : values_of(trainer)) {
      EXPECT_TRUE(value.eq(0.5).all().item<bool>()) << name;
    }
  });
}

TEST(MeanValues, ForgetLessTheLaterTheStep) {
  EXPECT_DOUBLE_EQ(optim::mean_decay_of(0.995, 1), 2.0 / 11);
  EXPECT_DOUBLE_EQ(optim::mean_decay_of(0.995, 90), 91.0 / 100);
  EXPECT_DOUBLE_EQ(optim::mean_decay_of(0.995, 10000), 0.995);
  comm::World world = comm::self::open();
  const tensor::Mesh mesh(world, grid::Grid());
  Recipe without = recipe_of(Zero::kMoments);
  without.optimizer.mean_decay = 0;
  train::Trainer trainer(mesh, without);
  EXPECT_THROW(trainer.with_mean_values([] {}), InvariantError);
}

}  // namespace
}  // namespace fourfold::test
