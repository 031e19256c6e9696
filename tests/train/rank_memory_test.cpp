// What a rank needs on a grid, and grids that are chosen with regard to it.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/rank_memory.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "fourfold/base/check.hpp"
#include "fourfold/model/fit.hpp"
#include "fourfold/train/bench.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/setup.hpp"
#include "fourfold/train/shared_grid.hpp"

#include "tests/support/ranks.hpp"
#include "tests/train/gpt_recipe.hpp"

namespace fourfold::test {
namespace {

using config::Config;
using grid::Axis;
using train::RankMemory;
using Recipe = GptRecipe;

Config config_of(const std::string& strategy) {
  Config config;
  config.model.vocab = 512;
  config.model.width = 96;
  config.model.heads = 8;
  config.model.layers = 6;
  config.model.context = 32;
  config.train.batch = 16;
  config.train.micro_batch = 16;
  config.parallel.strategy = strategy;
  return config;
}

/// As large as real ones, where no constant counts.
Config large_config() {
  Config config = config_of("4d");
  config.model.vocab = 51200;
  config.model.width = 12288;
  config.model.heads = 96;
  config.model.layers = 8;
  config.model.context = 2048;
  config.train.batch = config.train.micro_batch = 256;
  config.train.precision = config::Precision::kBf16;
  config.train.checkpoint_activations = true;
  return config;
}

RankMemory limit(Bytes bytes) {
  return {bytes, "a test", true};
}

Bytes peak_on(const Config& config, const grid::Sizes& sizes) {
  return train::peak_memory(train::recipe_of(config), sizes);
}

Bytes dry_peak(const grid::Grid& grid, int rank, const Recipe& recipe) {
  return train::dry_run(grid, rank, recipe).at_peak.total();
}

std::vector<grid::Sizes> grids(const Config& config, int ranks) {
  const Recipe recipe = train::recipe_of(config);
  return model::fitting_grids(model::GptModel(recipe.model), ranks, recipe.micro_batch);
}

TEST(RankMemory, FewLayersTellWhatManyHold) {
  Config config = large_config();
  for (const std::int64_t passes : {1, 4}) {
    config.train.micro_batch = config.train.batch / passes;
    for (const bool checkpoint : {true, false}) {
      config.train.checkpoint_activations = checkpoint;
      const Recipe recipe = train::recipe_of(config);
      for (const grid::Sizes& sizes : grids(config, 16)) {
        if (sizes.pipe > 1) continue;
        const double estimate = train::estimate(recipe, sizes).memory;
        const auto peak = static_cast<double>(train::peak_memory(recipe, sizes).value());
        EXPECT_NEAR(estimate, peak, 0.08 * peak) << sizes << ", " << passes << " passes";
      }
    }
  }
}

TEST(RankMemory, FewPassesTellWhatManyHold) {
  Config config = config_of("4d");
  for (const bool zero2 : {false, true}) {
    config.parallel.zero = zero2 ? 2 : 1;
    config.train.batch = 96;
    const Recipe recipe = train::recipe_of(config);
    for (const grid::Sizes& sizes : grids(config, 8)) {
      if (sizes.pipe > 1) continue;
      EXPECT_EQ(train::peak_memory(recipe, sizes), dry_peak(grid::Grid(sizes), 0, recipe)) << sizes;
    }
  }
}

TEST(RankMemory, IsNoLessThanThatOfVeryManyPasses) {
  Config config = config_of("4d");
  config.train.batch = 40 * config.train.micro_batch;
  const Recipe recipe = train::recipe_of(config);
  for (const grid::Sizes& sizes : {grid::Sizes{.data = 8}, grid::Sizes{.z = 8}}) {
    const Bytes peak = dry_peak(grid::Grid(sizes), 0, recipe);
    EXPECT_GE(train::peak_memory(recipe, sizes), peak) << sizes;
    EXPECT_LE(train::peak_memory(recipe, sizes), peak + Bytes(recipe.overlap.window)) << sizes;
  }
}

void expect_largest(const Config& config, const grid::Sizes& sizes) {
  const Recipe recipe = train::recipe_of(config);
  const grid::Grid grid(sizes);
  Bytes largest;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    largest = std::max(largest, dry_peak(grid, rank, recipe));
  }
  EXPECT_EQ(train::peak_memory(recipe, sizes), largest) << sizes;
}

TEST(RankMemory, IsThatOfTheLargestRank) {
  Config config = config_of("4d");
  config.model.vocab = 515;  // which nothing divides
  config.train.micro_batch = 4;
  for (const grid::Sizes& sizes : grids(config, 8)) expect_largest(config, sizes);
}

TEST(RankMemory, IsThatOfTheLargestPlaceOfAPipeline) {
  Config config = config_of("4d");
  config.train.batch = 32;
  config.train.micro_batch = 2;
  for (const std::int64_t layers : {7, 10}) {
    for (const std::int64_t vocab : {64, 4000}) {
      config.model.layers = layers;
      config.model.vocab = vocab;
      for (const grid::Sizes& sizes :
           {grid::Sizes{.pipe = 2}, grid::Sizes{.pipe = 4}, grid::Sizes{.data = 2, .pipe = 5}}) {
        expect_largest(config, sizes);
      }
    }
  }
  config.parallel.chunks = 2;
  expect_largest(config, {.pipe = 4});
}

TEST(RankMemory, LeavesOutGridsThatNeedMore) {
  Config free = config_of("4d");
  train::settle_grid(free, 8, RankMemory::unlimited());
  const Bytes room = peak_on(free, free.parallel.sizes) - Bytes(1);
  Config tight = config_of("4d");
  const std::string said = train::settle_grid(tight, 8, limit(room));
  const std::string end = concat("that sends the fewest bytes a step with room in ", room);
  EXPECT_NE(said.find(end + " (a test)"), std::string::npos) << said;
  EXPECT_LE(peak_on(tight, tight.parallel.sizes), room);
  // Of all grids that fit by a dry run none sends less.
  const Recipe recipe = train::recipe_of(tight);
  const double bytes = train::estimate(recipe, tight.parallel.sizes).bytes;
  int with_room = 0;
  for (const grid::Sizes& sizes : grids(tight, 8)) {
    if (sizes.pipe > 1 || dry_peak(grid::Grid(sizes), 0, recipe) > room) continue;
    EXPECT_GE(train::estimate(recipe, sizes).bytes, bytes) << sizes;
    ++with_room;
  }
  EXPECT_GT(with_room, 0);
}

TEST(RankMemory, TakesTheBestGridWhereItHasRoom) {
  Config free = config_of("4d");
  const std::string said = train::settle_grid(free, 8, RankMemory::unlimited());
  Config exact = config_of("4d");
  EXPECT_EQ(train::settle_grid(exact, 8, limit(peak_on(free, free.parallel.sizes))), said);
  EXPECT_EQ(exact, free);
}

TEST(RankMemory, TakesTheNextPipelineThatHasRoom) {
  Config free = config_of("deepspeed3d");
  train::settle_grid(free, 16, RankMemory::unlimited());
  const Bytes room = peak_on(free, free.parallel.sizes) - Bytes(1);
  Config tight = config_of("deepspeed3d");
  train::settle_grid(tight, 16, limit(room));
  EXPECT_NE(tight.parallel.sizes, free.parallel.sizes);
  EXPECT_LE(peak_on(tight, tight.parallel.sizes), room);
}

std::string refusal(Config config, int ranks, const RankMemory& memory) {
  try {
    return "settled: " + train::settle_grid(config, ranks, memory);
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(RankMemory, SaysWhatIsMissingWhereNothingHasRoom) {
  Config config = large_config();
  config.train.checkpoint_activations = false;
  const std::string said = refusal(config, 8, limit(Bytes(std::int64_t{32} << 30)));
  for (const char* words :
       {"no grid of 8 ranks has room for this model: ", " needs the least, about ",
        " a rank for tensors, and there are 32.0 GiB (a test); ", " ranks would do; on that grid ",
        "it needs with train.checkpoint_activations = true about ",
        ", with train.micro_batch = "}) {
    EXPECT_NE(said.find(words), std::string::npos) << words << "\n" << said;
  }
  EXPECT_EQ(said.find("bf16"), std::string::npos) << "it is bf16 already: " << said;
  // The ranks that it names are enough, half as many are not.
  const std::size_t at = said.find("(a test); ") + 10;
  const int enough = std::stoi(said.substr(at));
  EXPECT_NE(refusal(config, enough, limit(Bytes(std::int64_t{32} << 30))).find("settled"),
            std::string::npos);
  EXPECT_EQ(refusal(config, enough / 2, limit(Bytes(std::int64_t{32} << 30))).find("settled"),
            std::string::npos);
}

TEST(RankMemory, NamesMeasuresThatAreLeft) {
  Config config = config_of("4d");
  config.train.batch = 17;  // which nothing divides
  config.train.micro_batch = 17;
  const std::string one = refusal(config, 1, limit(Bytes(1000)));
  EXPECT_NE(one.find("no grid of 1 rank has room"), std::string::npos) << one;
  EXPECT_NE(one.find("with train.precision = \"bf16\" about"), std::string::npos) << one;
  EXPECT_EQ(one.find("micro_batch"), std::string::npos) << one;
  EXPECT_EQ(one.find("parallel.zero"), std::string::npos) << one;
  EXPECT_EQ(one.find("would do"), std::string::npos) << one;
}

TEST(RankMemory, AGivenGridIsRefusedByALimitAndElseRemarkedUpon) {
  Config config = config_of("4d");
  config.parallel.sizes = {.data = 2};
  config.parallel.given = true;
  const Bytes peak = peak_on(config, config.parallel.sizes);
  EXPECT_EQ(refusal(config, 2, limit(peak)), "settled: ");
  const std::string missing = concat("the grid data=2 does not fit the memory: a rank needs ", peak,
                                     " for tensors, and there are ", peak - Bytes(1), " (a test)");
  RankMemory memory = limit(peak - Bytes(1));
  const std::string said = refusal(config, 2, memory);
  EXPECT_EQ(said.substr(0, missing.size()), missing);
  EXPECT_NE(said.find("parallel.zero = 2 about "), std::string::npos) << said;
  memory.limit = false;
  EXPECT_EQ(refusal(config, 2, memory), "settled: " + missing);
}

TEST(RankMemory, IsSetOrAShareOfTheHost) {
  Config config;
  const RankMemory whole = train::memory_for_training(config, 1);
  const RankMemory half = train::memory_for_training(config, 2);
  EXPECT_FALSE(whole.limit);
  // What is free changes from moment to moment.
  EXPECT_NEAR(static_cast<double>(whole.bytes.value()),
              2.0 * static_cast<double>(half.bytes.value()),
              0.3 * static_cast<double>(whole.bytes.value()));
  EXPECT_LT(whole.bytes, train::memory_for_dry_run(config).bytes);
  config.device.memory_gib = 1.5;
  for (const int ranks : {1, 7}) {
    const RankMemory set = train::memory_for_training(config, ranks);
    EXPECT_EQ(set.bytes, Bytes(3 << 29));
    EXPECT_TRUE(set.limit);
  }
  EXPECT_EQ(to_string(train::memory_for_dry_run(config)), "1.50 GiB (device.memory_gib)");
  EXPECT_FALSE(train::memory_for_dry_run(config).limit);
}

TEST(RankMemory, AllRanksSettleAlike) {
  on_threads(4, [](comm::World& world) {
    Config config = config_of("4d");
    std::vector<int> asked;
    const std::string said =
        train::settle_on_all_ranks(world, config, [&](Config& mine, const RankMemory& memory) {
          asked.push_back(world.rank());
          return train::settle_grid(mine, world.size(), memory);
        });
    Config alone = config_of("4d");
    const std::string expected = train::settle_grid(alone, 4, RankMemory::unlimited());
    expect_on_all_ranks(world, said == expected, said);
    expect_on_all_ranks(world, config == alone, "the configuration");
    expect_on_all_ranks(world,
                        asked == (world.rank() == 0 ? std::vector<int>{0} : std::vector<int>{}),
                        "only the first rank looks for a grid");
    // A refusal reaches all of them.
    Config tight = config_of("4d");
    tight.device.memory_gib = 1e-6;
    std::string refused;
    try {
      train::settle_on_all_ranks(world, tight, [&](Config& mine, const RankMemory& memory) {
        return train::settle_grid(mine, world.size(), memory);
      });
    } catch (const ConfigError& error) {
      refused = error.what();
    }
    expect_on_all_ranks(world, refused.find("no grid of 4 ranks has room") == 0, refused);
  });
}

TEST(RankMemory, StrategiesWithoutRoomAreRefused) {
  const Config config = config_of("4d");
  const Bytes split = peak_on(train::with_strategy(config, "zero3", 8), {.z = 8});
  const Config zero3 = train::with_strategy(config, "zero3", 8, limit(split));
  EXPECT_TRUE(zero3.parallel.sizes == grid::Sizes{.z = 8});
  EXPECT_THROW(train::with_strategy(config, "ddp", 8, limit(split)), ConfigError);
}

}  // namespace
}  // namespace fourfold::test
