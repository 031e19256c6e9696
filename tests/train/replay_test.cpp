// The recorded schedules of all ranks of a step run against each other to the end, under the rules
// of `schedule::queue_of`, and not under stricter ones.
// SPDX-License-Identifier: Apache-2.0
#include "tests/schedule/replay.hpp"

#include <gtest/gtest.h>

#include "fourfold/cluster/load.hpp"
#include "fourfold/plan/replay.hpp"
#include "fourfold/train/dry_run.hpp"

#include "tests/support/ranks.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using schedule::Issue;
using Recipe = GptRecipe;

Recipe pipeline_recipe(int chunks) {
  Recipe recipe = small_recipe(true, 1);
  recipe.micro_batch = 4;
  recipe.model.layers = 8;
  recipe.batch = 8 * recipe.micro_batch;
  recipe.chunks = chunks;
  return recipe;
}

std::vector<schedule::Schedule> dry_schedules(const grid::Grid& grid, const Recipe& recipe) {
  std::vector<schedule::Schedule> all;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    all.push_back(train::dry_run(grid, rank, recipe).schedule);
  }
  return all;
}

TEST(Replay, APipelineEnds) {
  for (const grid::Sizes& sizes :
       {grid::Sizes{.pipe = 2}, grid::Sizes{.pipe = 4}, grid::Sizes{.x = 2, .pipe = 2},
        grid::Sizes{.z = 2, .data = 2, .pipe = 2}}) {
    for (const int chunks : {1, 2}) {
      const grid::Grid grid(sizes);
      EXPECT_EQ(replay(grid, dry_schedules(grid, pipeline_recipe(chunks))), "")
          << grid << ", " << chunks << " chunks";
    }
  }
}

TEST(Replay, TheScheduleOfARealRunEnds) {
  const grid::Grid grid({.y = 2, .pipe = 4});
  std::vector<schedule::Schedule> all(static_cast<std::size_t>(grid.ranks()));
  on_threads(grid.ranks(), [&](comm::World& world) {
    all[static_cast<std::size_t>(world.rank())] =
        train::record_step(world, grid, pipeline_recipe(1), small_samples()).schedule;
  });
  EXPECT_EQ(replay(grid, all), "");
}

/// A stage issues the receive of the next hidden state before it sends its own on. With several
/// chunks the stages form a ring, in which each send would wait for the one before it.
TEST(Replay, WithOneQueueALaneAnInterleavedPipelineWouldHang) {
  const auto one_queue = [](const Issue& issue) { return schedule::Queue{issue.lane}; };
  for (const int stages : {2, 4}) {
    const grid::Grid grid({.pipe = stages});
    const auto schedules = dry_schedules(grid, pipeline_recipe(2));
    EXPECT_EQ(replay(grid, schedules), "") << grid;
    EXPECT_NE(replay(grid, schedules, one_queue), "") << grid;
  }
}

/// What one rank for each index along pipe does is enough to predict the time of the step.
TEST(Replay, AStepHasATimeOnACluster) {
  const cluster::Cluster cluster = cluster::load("polaris");
  for (const grid::Sizes& sizes :
       {grid::Sizes{.x = 2, .y = 2, .z = 2, .data = 2}, grid::Sizes{.pipe = 4},
        grid::Sizes{.x = 2, .z = 2, .data = 2, .pipe = 2}}) {
    for (const int chunks : {1, 2}) {
      const grid::Grid grid(sizes);
      if (chunks > 1 && sizes.pipe == 1) continue;
      std::vector<schedule::Schedule> places;
      for (int place = 0; place < sizes.pipe; ++place) {
        grid::Coord coord;
        coord[grid::Axis::kPipe] = place;
        places.push_back(train::dry_run(grid, grid.rank_of(coord), pipeline_recipe(chunks),
                                        cluster.gpus_per_host)
                             .schedule);
      }
      const plan::Replayed replayed = plan::replay(places, grid, cluster);
      EXPECT_TRUE(replayed.periodic) << grid;
      EXPECT_GT(replayed.step, Seconds(0)) << grid;
      for (const plan::PlaceTime& place : replayed.places) {
        EXPECT_NEAR(place.step / replayed.step, 1, 1e-6) << grid;
        EXPECT_GT(place.compute, Seconds(0)) << grid;
        EXPECT_GT(place.exposed, Seconds(0)) << grid;
      }
    }
  }
}

TEST(Replay, OtherStepsEnd) {
  Recipe recipe = pipeline_recipe(1);
  for (const grid::Sizes& sizes : {grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.y = 2, .data = 2}}) {
    const grid::Grid grid(sizes);
    EXPECT_EQ(replay(grid, dry_schedules(grid, recipe)), "") << grid;
  }
}

}  // namespace
}  // namespace fourfold::test
