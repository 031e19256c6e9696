// The recorded step is one of the steady state: it repeats, and replaying it is the training.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/comm/recorder.hpp"
#include "fourfold/train/dry_run.hpp"

#include "tests/support/ranks.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using schedule::Compute;
using schedule::Issue;
using schedule::Phase;
using schedule::Schedule;
using schedule::Wait;
using schedule::Work;
using Recipe = GptRecipe;

Recipe recipe_of(int places = 1, int chunks = 1) {
  Recipe recipe = small_recipe(true, 8);
  recipe.model.layers = 4;
  recipe.chunks = chunks;
  recipe.batch = places * recipe.micro_batch;
  return recipe;
}

/// The schedules of steps 2, 3, ... of a training.
std::vector<Schedule> later_steps(comm::World& world, const grid::Grid& grid, const Recipe& recipe,
                                  std::int64_t last) {
  const tensor::Mesh mesh(world, grid, recipe.overlap);
  train::Trainer trainer(mesh, recipe);
  std::vector<Schedule> schedules(static_cast<std::size_t>(last));
  for (std::int64_t number = 1; number <= last; ++number) {
    const comm::Recording recording(world, schedules[static_cast<std::size_t>(number - 1)]);
    trainer.step(number, small_samples());
  }
  trainer.finish();
  schedules.erase(schedules.begin());
  return schedules;
}

void expect_steady(const grid::Grid& grid, const Recipe& recipe) {
  on_threads(grid.ranks(), [&](comm::World& world) {
    const std::vector<Schedule> real = later_steps(world, grid, recipe, 4);
    const Schedule dry = train::dry_run(grid, world.rank(), recipe).schedule;
    for (std::size_t i = 0; i < real.size(); ++i) {
      expect_on_all_ranks(world, real[i] == dry,
                          concat(grid, ": step ", i + 2, " is another one than that of a dry run"));
    }
  });
}

TEST(Steady, EveryStepAfterTheFirstIsTheRecordedOne) {
  for (const bool overlaps : {true, false}) {
    for (const grid::Sizes& sizes :
         {grid::Sizes{.data = 2}, grid::Sizes{.z = 2, .data = 2}, grid::Sizes{.x = 2, .y = 2}}) {
      for (const optim::Zero zero :
           {optim::Zero::kNothing, optim::Zero::kMoments, optim::Zero::kGradients}) {
        Recipe recipe = recipe_of(2);
        recipe.optimizer.zero = zero;
        recipe.overlap = overlaps ? tensor::Overlap() : tensor::Overlap::none();
        recipe.overlap.window = 9000;
        recipe.overlap.segment = 20000;
        expect_steady(grid::Grid(sizes), recipe);
      }
    }
  }
}

TEST(Steady, SoIsEveryStepOfAPipeline) {
  for (const grid::Sizes& sizes : {grid::Sizes{.pipe = 4}, grid::Sizes{.data = 2, .pipe = 2},
                                   grid::Sizes{.z = 2, .pipe = 2}}) {
    for (const int chunks : {1, 2}) {
      if (sizes.pipe * chunks > 4) continue;  // there are four layers
      expect_steady(grid::Grid(sizes), recipe_of(4, chunks));
    }
  }
}

std::int64_t waits_for_the_step_before(const grid::Sizes& sizes, const Recipe& recipe, int rank) {
  std::int64_t count = 0;
  const Schedule schedule = train::dry_run(grid::Grid(sizes), rank, recipe).schedule;
  for (const schedule::Step& step : schedule.steps()) {
    const auto* wait = std::get_if<Wait>(&step);
    count += wait != nullptr && wait->number < 0 ? 1 : 0;
  }
  return count;
}

TEST(Steady, AStepWaitsForTheValuesThatTheStepBeforeGathers) {
  Recipe recipe = recipe_of();
  EXPECT_GT(waits_for_the_step_before({.data = 2}, recipe, 0), 0);
  EXPECT_EQ(waits_for_the_step_before({.z = 2}, recipe, 0), 0);
  recipe.overlap.data = false;
  EXPECT_EQ(waits_for_the_step_before({.data = 2}, recipe, 0), 0);
  recipe = recipe_of(4);  // the first and the last stage share the table
  EXPECT_EQ(waits_for_the_step_before({.pipe = 4}, recipe, 0), 1);
  EXPECT_EQ(waits_for_the_step_before({.pipe = 4}, recipe, 1), 0);
  EXPECT_EQ(waits_for_the_step_before({.pipe = 4}, recipe, 3), 1);
}

/// A group reaches the network where its members are on several hosts, whatever the placement.
TEST(Steady, GroupsAreThoseOfThePlacement) {
  const Recipe recipe = recipe_of(2);
  const int ranks_per_host = 4;
  for (const char* placement : {"x,y,z,data,pipe", "data,z,y,x,pipe", "pipe,data,x,z,y"}) {
    const grid::Grid grid({.x = 2, .z = 2, .data = 2, .pipe = 2}, grid::parse_placement(placement));
    for (const int rank : {0, 5, 14}) {
      const Schedule schedule = train::dry_run(grid, rank, recipe, ranks_per_host).schedule;
      int across = 0;
      int issues = 0;
      for (const schedule::Step& step : schedule.steps()) {
        const auto* issue = std::get_if<Issue>(&step);
        if (issue == nullptr) continue;
        const grid::Group group = grid.group(issue->axes, rank);
        EXPECT_EQ(issue->index, group.index) << grid;
        EXPECT_EQ(issue->group_size, group.size()) << grid;
        const bool spans = std::ranges::any_of(group.members, [&](int member) {
          return member / ranks_per_host != rank / ranks_per_host;
        });
        EXPECT_EQ(issue->reach == schedule::Reach::kNetwork, spans) << grid << ", " << group;
        across += spans ? 1 : 0;
        ++issues;
      }
      EXPECT_GT(across, 0) << grid;
      EXPECT_LT(across, issues) << grid;
    }
  }
}

/// The flops of products of each phase.
std::map<Phase, double> products(const Recipe& recipe) {
  std::map<Phase, double> flops;
  const Schedule schedule = train::dry_run(grid::Grid({.x = 2, .data = 2}), 0, recipe).schedule;
  for (const schedule::Step& step : schedule.steps()) {
    const auto* compute = std::get_if<Compute>(&step);
    if (compute == nullptr) continue;
    const schedule::Arithmetic& a = compute->arithmetic;
    const bool is_update = a.work == Work::kOptimizer || compute->name == "norm of gradients";
    EXPECT_EQ(compute->phase == Phase::kUpdate, is_update) << to_string(*compute);
    EXPECT_EQ(a.extent == schedule::Extent(), a.work != Work::kProduct) << to_string(*compute);
    if (a.work == Work::kProduct) flops[compute->phase] += a.flops.value();
  }
  return flops;
}

TEST(Steady, PassesAndTheirPhases) {
  Recipe recipe = recipe_of(2);
  const std::map<Phase, double> kept = products(recipe);
  EXPECT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept.at(Phase::kBackward), 2 * kept.at(Phase::kForward));
  recipe.model.execution.checkpoint = true;
  const std::map<Phase, double> again = products(recipe);
  EXPECT_EQ(again.size(), 3U);
  EXPECT_EQ(again.at(Phase::kForward), kept.at(Phase::kForward));
  EXPECT_EQ(again.at(Phase::kBackward), kept.at(Phase::kBackward));
  // Everything but the logits, which are outside of the blocks.
  EXPECT_LT(again.at(Phase::kRecompute), kept.at(Phase::kForward));
  EXPECT_GT(again.at(Phase::kRecompute), 0.5 * kept.at(Phase::kForward));
}

}  // namespace
}  // namespace fourfold::test
