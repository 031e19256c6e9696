// Training steps of a U-Net: by every strategy and in pipelines they follow one rank, and a real
// run, a dry run and the closed form agree on what is communicated.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"
#include "fourfold/train/bench.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/pictures.hpp"
#include "fourfold/train/setup.hpp"

#include "tests/model/unet_reference.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/small_training.hpp"
#include "tests/train/unet_form.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using model::UNetSpec;
using nn::Activations;
using train::Recipe;
using train::StepRecord;
using train::StepResult;

void read_image(std::int64_t sample, std::span<const Tensor> data) {
  UNetSpec spec = small_unet();
  spec.colours = data[0].size(1);
  data[0].copy_(some_images(spec, sample, 1)[0]);
}

Recipe recipe_of(const UNetSpec& spec, std::int64_t samples, std::int64_t passes = 1) {
  Recipe recipe;
  recipe.model = std::make_shared<model::UNetModel>(spec);
  recipe.batch = samples * passes;
  recipe.micro_batch = samples;
  recipe.learning_rate = {.largest = 1e-2, .smallest = 1e-3, .warmup = 3, .steps = 10};
  recipe.clip = 1;
  return recipe;
}

/// The last layers of all blocks begin with zeros, so that the first steps would hardly depend on
/// the rest.
void fill_with_noise(const model::Part& part) {
  constexpr double kDeviation = 0.1;
  for (const nn::ParameterPtr& parameter : part.parameters()) {
    const nn::ParameterSpec& spec = parameter->spec();
    parameter->fill([&](Tensor& rows, const grid::Block& here) {
      kernels::fill_normal(rows, spec.shape, here, kernels::key_of(5, spec.name), kDeviation);
      nn::real_part(rows, here).add_(spec.mean);
    });
  }
}

std::vector<StepResult> train_images(comm::World& world, const grid::Grid& grid,
                                     const Recipe& recipe) {
  const tensor::Mesh mesh(world, grid, recipe.overlap);
  train::Trainer trainer(mesh, recipe, fill_with_noise);
  std::vector<StepResult> results;
  for (std::int64_t i = 1; i <= recipe.learning_rate.steps; ++i) {
    results.push_back(trainer.step(i, read_image));
  }
  // Without dropout, and with noise of its own.
  const double loss = trainer.validate(recipe.batch / recipe.micro_batch, read_image);
  results.push_back({loss, loss, 1});
  return results;
}

std::vector<StepResult> alone(const Recipe& recipe) {
  comm::World world = comm::self::open();
  return train_images(world, grid::Grid(), recipe);
}

void expect_follows(const grid::Sizes& sizes, const Recipe& recipe,
                    const std::vector<StepResult>& expected) {
  const grid::Grid grid(sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    const double worst = difference(train_images(world, grid, recipe), expected);
    expect_on_all_ranks(world, worst <= 1e-10,
                        concat(grid, " in ", recipe.chunks, " chunks: ", worst));
  });
}

// --- the same as one rank

TEST(UNetTraining, FollowsOneRankInPipelines) {
  UNetSpec spec = small_unet();
  spec.dropout = 0.1;
  Recipe recipe = recipe_of(spec, 4, 4);
  recipe.learning_rate.steps = 4;
  const std::vector<StepResult> expected = alone(recipe);
  for (const grid::Sizes& sizes :
       {grid::Sizes{.pipe = 2}, grid::Sizes{.pipe = 4}, grid::Sizes{.y = 2, .pipe = 2},
        grid::Sizes{.x = 2, .z = 2, .pipe = 2}, grid::Sizes{.data = 2, .pipe = 4}}) {
    expect_follows(sizes, recipe, expected);
  }
  recipe.chunks = 2;
  expect_follows({.pipe = 2}, recipe, expected);
  expect_follows({.x = 2, .pipe = 4}, recipe, expected);
}

TEST(UNetTraining, FollowsOneRankInPipelinesOfOtherSettings) {
  UNetSpec spec = small_unet();
  Recipe recipe = recipe_of(spec, 4, 4);
  recipe.learning_rate.steps = 3;
  const std::vector<StepResult> expected = alone(recipe);
  spec.execution.checkpoint = true;
  spec.execution.activations = Activations::kReplicated;
  recipe.model = std::make_shared<model::UNetModel>(spec);
  expect_follows({.y = 2, .pipe = 4}, recipe, expected);
  recipe.overlap = tensor::Overlap::none();
  expect_follows({.x = 2, .z = 2, .pipe = 2}, recipe, expected);
}

formats::Picture picture_on(comm::World& world, const grid::Grid& grid, const Recipe& recipe) {
  constexpr std::uint64_t kSeed = 3;
  const tensor::Mesh mesh(world, grid, recipe.overlap);
  train::Trainer trainer(mesh, recipe, fill_with_noise);
  trainer.step(1, read_image);  // then the mean of the weights differs from them
  trainer.finish();
  return train::draw_picture(mesh, trainer, kSeed);
}

/// The 32 images of a picture are no multiple of those of a pass.
TEST(UNetTraining, DrawsInPipelinesWhatOneRankDraws) {
  UNetSpec spec = small_unet();
  spec.noise.steps = 3;
  Recipe recipe = recipe_of(spec, 12, 4);
  recipe.optimizer.mean_decay = 0.5;
  comm::World alone = comm::self::open();
  const formats::Picture expected = picture_on(alone, grid::Grid(), recipe);
  const auto draws_it_on = [&](const grid::Sizes& sizes) {
    const grid::Grid grid(sizes);
    on_threads(grid.ranks(), [&](comm::World& world) {
      expect_on_all_ranks(world, picture_on(world, grid, recipe) == expected, concat(grid));
    });
  };
  draws_it_on({.pipe = 4});
  draws_it_on({.x = 2, .z = 2, .pipe = 2});
  recipe.chunks = 2;
  draws_it_on({.y = 2, .data = 2, .pipe = 2});
}

config::Config small_config() {
  const UNetSpec spec = small_unet();
  config::Config config;
  config.model.kind = "unet";
  config.model.image = spec.image;
  config.model.colours = spec.colours;
  config.model.channels = spec.channels;
  config.model.multipliers = spec.multipliers;
  config.model.blocks = spec.blocks;
  config.model.attention = spec.attention;
  config.model.heads = spec.heads;
  config.model.groups = spec.groups;
  config.model.dropout = 0.1;
  config.train.batch = config.train.micro_batch = 16;
  config.train.steps = 10;
  config.train.precision = config::Precision::kFloat64;
  config.optim.lr = 1e-2;
  config.optim.min_lr = 1e-3;
  config.optim.warmup = 3;
  return config;
}

TEST(UNetTraining, FollowsOneRankByEveryStrategy) {
  const config::Config config = small_config();
  const std::vector<StepResult> expected = alone(train::recipe_of(config));
  for (const char* name :
       {"ddp", "zero1", "zero2", "zero3", "megatron", "3d", "4d", "deepspeed3d"}) {
    SCOPED_TRACE(name);
    const config::Config settled = train::with_strategy(config, name, 8);
    expect_follows(settled.parallel.sizes, train::recipe_of(settled), expected);
  }
}

TEST(UNetTraining, IsRefusedBySumma) {
  for (const char* name : {"summa2d", "summa2.5d"}) {
    try {
      static_cast<void>(train::with_strategy(small_config(), name, 4));
      ADD_FAILURE() << name;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("a U-Net convolves images"), std::string::npos)
          << error.what();
    }
  }
}

/// Wherever the network is cut.
TEST(UNetTraining, FollowsOneRankWhereverItIsCut) {
  Recipe recipe = recipe_of(small_unet(), 2, 2);
  recipe.learning_rate.steps = 1;
  const std::vector<StepResult> expected = alone(recipe);
  const std::int64_t blocks = recipe.model->blocks();
  for (std::int64_t cut = 1; cut < blocks; ++cut) {
    recipe.stage_blocks = {cut, blocks - cut};
    expect_follows({.pipe = 2}, recipe, expected);
  }
}

// --- what is communicated

std::string shown(const grid::Grid& grid, const Recipe& recipe) {
  const model::Execution& how = recipe.model->execution();
  return concat(grid, how.checkpoint ? ", checkpointed" : "",
                how.activations == Activations::kSharded ? ", sharded" : ", replicated",
                recipe.overlap.halves ? ", in halves" : "", ", ", recipe.chunks, " chunks:\n");
}

/// With and without checkpointing, replicated and sharded; one pass and several; with and without
/// overlaps.
std::vector<Recipe> settings(const UNetSpec& base, std::int64_t samples) {
  std::vector<Recipe> all;
  for (const bool checkpoint : {false, true}) {
    for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
      UNetSpec spec = base;
      spec.execution.checkpoint = checkpoint;
      spec.execution.activations = activations;
      Recipe recipe =
          recipe_of(spec, samples, checkpoint == (activations == Activations::kSharded) ? 1 : 2);
      all.push_back(recipe);
      recipe.overlap = tensor::Overlap::none();
      all.push_back(recipe);
    }
  }
  return all;
}

/// The first step that differs, for people.
std::string first_difference(const schedule::Schedule& a, const schedule::Schedule& b) {
  for (std::size_t i = 0; i < std::min(a.steps().size(), b.steps().size()); ++i) {
    if (a.steps()[i] == b.steps()[i]) continue;
    return concat("step ", i, ": ", schedule::to_string(a.steps()[i]), " against ",
                  schedule::to_string(b.steps()[i]));
  }
  return concat(a.steps().size(), " steps against ", b.steps().size());
}

std::string by_class(const StepRecord& step) {
  std::string text;
  for (const tensor::MemoryClass kind :
       {tensor::MemoryClass::kParameters, tensor::MemoryClass::kGradients,
        tensor::MemoryClass::kOptimizer, tensor::MemoryClass::kActivations,
        tensor::MemoryClass::kCommunication}) {
    text += concat("\n", tensor::to_string(kind), " ", step.at_peak[kind]);
  }
  return text;
}

void expect_forms(const grid::Grid& grid, const Recipe& recipe) {
  on_threads(grid.ranks(), [&](comm::World& world) {
    const StepRecord real = train::record_step(world, grid, recipe, read_image);
    const StepRecord dry = train::dry_run(grid, world.rank(), recipe);
    expect_on_all_ranks(world, real.schedule == dry.schedule,
                        shown(grid, recipe) + first_difference(real.schedule, dry.schedule));
    const CallsBy expected = unet_form(grid, recipe, world.rank());
    const std::string wrong = difference(counted(real.counts), expected);
    expect_on_all_ranks(world, wrong.empty(), shown(grid, recipe) + wrong);
    expect_on_all_ranks(world, counted(dry.counts) == expected, "counters of the dry run");
    const double ratio =
        static_cast<double>(dry.peak().value()) / static_cast<double>(real.peak().value());
    expect_on_all_ranks(world, std::abs(ratio - 1) <= 0.03,
                        concat(shown(grid, recipe), "memory of ", dry.peak(), " instead of ",
                               real.peak(), by_class(dry), by_class(real)));
  });
}

/// The same without a real run, for many settings. The first two ranks stand for all: where
/// channels are exchanged, the first one keeps its own.
void expect_dry_forms(const grid::Grid& grid, const Recipe& recipe) {
  for (int place = 0; place < grid.size(Axis::kPipe); ++place) {
    grid::Coord coord;
    coord[Axis::kPipe] = place;
    const int first = grid.rank_of(coord);
    for (const int rank : {first, first + (grid.size({Axis::kX, Axis::kY}) > 1 ? 1 : 0)}) {
      const CallsBy own = counted(train::dry_run(grid, rank, recipe).counts);
      ASSERT_EQ(difference(own, unet_form(grid, recipe, rank)), "")
          << shown(grid, recipe) << "rank " << rank;
    }
  }
}

TEST(UNetStep, SendsWhatTheClosedFormSays) {
  std::size_t next = 0;  // every grid has two of the settings
  for (const grid::Sizes& sizes :
       {grid::Sizes{.x = 2, .y = 2, .z = 2}, grid::Sizes{.x = 2, .z = 2, .data = 2},
        grid::Sizes{.y = 4, .data = 2}, grid::Sizes{.x = 3, .y = 2}, grid::Sizes{.x = 2, .y = 4},
        grid::Sizes{.y = 2, .z = 2, .pipe = 2}, grid::Sizes{.x = 2, .y = 2, .pipe = 2}}) {
    for (int i = 0; i < 2; ++i, next += 3) {
      Recipe recipe = settings(small_unet(), 4)[next % 8];
      if (sizes.pipe > 1) recipe.batch = 2 * recipe.micro_batch;
      expect_forms(grid::Grid(sizes), recipe);
    }
  }
}

TEST(UNetStep, SendsWhatTheClosedFormSaysOnAllGridsOf8) {
  std::size_t next = 0;
  for (const grid::Sizes& sizes :
       grid::factorisations(8, {Axis::kX, Axis::kY, Axis::kZ, Axis::kData})) {
    const std::vector<Recipe> all = settings(small_unet(), 2 * sizes.z * sizes.data);
    for (int i = 0; i < 3; ++i, next += 3) expect_dry_forms(grid::Grid(sizes), all[next % 8]);
  }
}

TEST(UNetStep, SendsWhatTheClosedFormSaysWithFewHeads) {
  UNetSpec spec = small_unet();
  spec.heads = 2;
  spec.colours = 3;
  for (const Recipe& recipe : settings(spec, 4)) {
    expect_dry_forms(grid::Grid({.x = 2, .y = 2, .z = 2}), recipe);
  }
}

TEST(UNetStep, SendsWhatTheClosedFormSaysInAPipeline) {
  std::size_t next = 0;
  for (const grid::Sizes& sizes :
       {grid::Sizes{.pipe = 4}, grid::Sizes{.x = 2, .y = 2, .pipe = 2},
        grid::Sizes{.x = 2, .z = 2, .pipe = 2}, grid::Sizes{.y = 2, .data = 2, .pipe = 4}}) {
    for (int i = 0; i < 2; ++i, next += 3) {
      Recipe recipe = settings(small_unet(), 4)[next % 8];
      recipe.batch = 4 * recipe.micro_batch;
      recipe.chunks = 1 + i;
      expect_dry_forms(grid::Grid(sizes), recipe);
    }
  }
}

/// A large one, which no rank here could hold.
TEST(UNetStep, OfThePapersLargestNetworkIsDryRun) {
  UNetSpec spec;
  spec.channels = 1600;
  spec.blocks = 3;
  spec.learn_sigma = true;
  spec.execution.precision = nn::Precision::bf16();
  spec.execution.checkpoint = true;
  const Recipe recipe = recipe_of(spec, 2048);
  const StepRecord step =
      train::dry_run(grid::Grid({.x = 2, .y = 4, .z = 16, .data = 8}), 5, recipe);
  EXPECT_GT(step.peak().value(), std::int64_t{1} << 30);
}

}  // namespace
}  // namespace fourfold::test
