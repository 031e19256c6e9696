// The grid that a configuration gets when it names none, and what is said about it.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/settle.hpp"

#include <gtest/gtest.h>

#include "fourfold/base/check.hpp"
#include "fourfold/model/fit.hpp"
#include "fourfold/train/setup.hpp"

#include "tests/train/gpt_recipe.hpp"

namespace fourfold::test {
namespace {

using config::Config;
using train::RankMemory;

Config config_of(const std::string& strategy) {
  Config config;
  config.model.vocab = 64;
  config.model.width = 24;
  config.model.heads = 6;
  config.model.layers = 4;
  config.model.context = 8;
  config.train.batch = 16;
  config.train.micro_batch = 16;
  config.parallel.strategy = strategy;
  return config;
}

std::string settle(Config& config, int ranks) {
  return train::settle_grid(config, ranks, RankMemory::unlimited());
}

std::string refusal(Config config, int ranks) {
  try {
    settle(config, ranks);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "settled";
}

TEST(Settle, TakesTheOnlyGridOfAStrategy) {
  Config config = config_of("3d");
  EXPECT_EQ(settle(config, 8), "grid x=2,y=2,z=2");
  EXPECT_TRUE(config.parallel.sizes == (grid::Sizes{.x = 2, .y = 2, .z = 2}));
  EXPECT_EQ(settle(config, 8), "");  // it has one now
}

TEST(Settle, TakesTheGridThatSendsTheFewestBytes) {
  Config config = config_of("4d");
  const std::string said = settle(config, 4);
  EXPECT_EQ(said.substr(said.find(": of the")),
            ": of the 9 grids that fit 4 ranks, the one that sends the fewest bytes a step")
      << said;
  const GptRecipe recipe = train::recipe_of(config);
  const double fewest = train::estimate(recipe, config.parallel.sizes).bytes;
  int fitting = 0;
  for (const grid::Sizes& sizes :
       model::fitting_grids(model::GptModel(recipe.model), 4, recipe.micro_batch)) {
    EXPECT_LE(fewest, train::estimate(recipe, sizes).bytes) << sizes;
    ++fitting;
  }
  EXPECT_EQ(fitting, 9);
}

TEST(Settle, GivesAPipelineMicroBatches) {
  Config config = config_of("deepspeed3d");
  EXPECT_EQ(settle(config, 8), "grid y=2,data=2,pipe=2 and micro-batches of 2");
  EXPECT_EQ(config.train.micro_batch, 2);
  config = config_of("deepspeed3d");
  config.train.micro_batch = 8;
  EXPECT_EQ(settle(config, 8), "grid y=2,data=2,pipe=2");
  EXPECT_EQ(config.train.micro_batch, 8);
}

TEST(Settle, LeavesOutPipelinesThatChunksDoNotFit) {
  // Passes must be a multiple of the places: up to 8 of them here, and 6 divide a batch of 12.
  Config config = config_of("deepspeed3d");
  config.parallel.chunks = 2;
  config.train.batch = config.train.micro_batch = 12;
  settle(config, 8);
  EXPECT_EQ(config.train.micro_batch, 2);
  // Four layers are two chunks on two places, not on four.
  config = config_of("deepspeed3d");
  config.parallel.chunks = 2;
  settle(config, 16);
  EXPECT_EQ(config.parallel.sizes.pipe, 2);
  EXPECT_NO_THROW(train::check_fit(config));
}

TEST(Settle, SaysWhyNothingFits) {
  EXPECT_EQ(
      refusal(config_of("megatron"), 8),
      "no grid of 8 ranks that the strategy megatron takes by itself fits this model: 6 heads "
      "cannot be split over x=1 times y=8, nor 16 samples of a rank over x; of those that "
      "--grid can name these work: data=8 or y=2,data=4");
  EXPECT_EQ(
      refusal(config_of("4d"), 7),
      "no grid of 7 ranks that the strategy 4d takes by itself fits this model: 6 heads, width "
      "24, 4 layers and a micro-batch of 16 must be divided; of those that --grid can name "
      "these work: none; change the ranks, the batch or the heads");
  Config given = config_of("3d");
  given.parallel.sizes = {.x = 2, .y = 2, .z = 2};
  given.parallel.given = true;
  EXPECT_EQ(refusal(given, 16),
            "the grid x=2,y=2,z=2 needs 8 ranks, not 16; with 16 these work: data=16 or "
            "x=2,y=2,z=2,data=2");
  EXPECT_EQ(refusal(given, 0), "--ranks must be from 1 to 1048576, not 0");
  EXPECT_EQ(refusal(config_of("3d"), 2147483647),
            "--ranks must be from 1 to 1048576, not 2147483647");
}

}  // namespace
}  // namespace fourfold::test
