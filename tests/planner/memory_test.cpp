// The memory that dry runs and the planner predict against the peak of a real step, for every
// strategy by its name on 8 ranks; the schedule of a dry run against that of the real step.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"
#include "fourfold/planner/predict.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/rank_memory.hpp"
#include "fourfold/train/setup.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using config::Config;
using train::StepRecord;

/// A configuration of 8 ranks, and what it is about.
struct Case {
  std::string strategy;
  grid::Sizes sizes;
  std::string kind = "gpt";
  bool bf16 = false;
  bool checkpoint = false;
  std::int64_t passes = 1;
  int chunks = 1;
};

std::vector<Case> cases() {
  return {{.strategy = "ddp", .sizes = {.data = 8}},
          {.strategy = "zero1", .sizes = {.data = 8}, .kind = "llama"},
          {.strategy = "zero2", .sizes = {.data = 8}, .bf16 = true, .passes = 4},
          {.strategy = "zero3", .sizes = {.z = 8}, .kind = "llama", .checkpoint = true},
          {.strategy = "megatron", .sizes = {.y = 4, .data = 2}, .bf16 = true},
          {.strategy = "summa2d", .sizes = {.x = 2, .y = 2, .data = 2}},
          {.strategy = "summa2.5d", .sizes = {.x = 2, .y = 2, .z = 2}, .kind = "llama"},
          {.strategy = "3d", .sizes = {.x = 2, .y = 2, .z = 2}, .bf16 = true, .checkpoint = true},
          {.strategy = "4d", .sizes = {.x = 2, .z = 2, .data = 2}, .passes = 4},
          {.strategy = "4d", .sizes = {.y = 2, .z = 2, .data = 2}, .kind = "llama", .bf16 = true},
          {.strategy = "4d", .sizes = {.x = 2, .data = 2, .pipe = 2}, .kind = "llama", .passes = 8},
          {.strategy = "deepspeed3d",
           .sizes = {.y = 2, .data = 2, .pipe = 2},
           .checkpoint = true,
           .passes = 4,
           .chunks = 2},
          {.strategy = "ddp", .sizes = {.data = 8}, .kind = "unet"},
          {.strategy = "zero1", .sizes = {.data = 8}, .kind = "unet", .checkpoint = true},
          {.strategy = "zero2", .sizes = {.data = 8}, .kind = "unet", .bf16 = true, .passes = 2},
          {.strategy = "zero3", .sizes = {.z = 4, .data = 2}, .kind = "unet"},
          {.strategy = "megatron", .sizes = {.y = 4, .data = 2}, .kind = "unet"},
          {.strategy = "3d", .sizes = {.x = 2, .y = 2, .z = 2}, .kind = "unet"},
          {.strategy = "4d", .sizes = {.x = 2, .y = 2, .data = 2}, .kind = "unet", .bf16 = true},
          {.strategy = "4d", .sizes = {.x = 2, .y = 2, .pipe = 2}, .kind = "unet", .passes = 2},
          {.strategy = "deepspeed3d",
           .sizes = {.y = 2, .data = 2, .pipe = 2},
           .kind = "unet",
           .passes = 4}};
}

Config config_of(const Case& one) {
  config::Draft draft{.config = {}, .file = {}, .places = {}};
  Config& config = draft.config;
  config.model.kind = one.kind;
  config.model.vocab = 515;  // which nothing divides
  config.model.width = 128;
  config.model.heads = config.model.kv_heads = 8;
  config.model.hidden = 352;
  config.model.layers = 8;
  config.model.context = 64;
  config.model.tied = one.kind == "gpt";
  if (one.kind == "unet") {
    config.model.image = 16;
    config.model.colours = 1;
    config.model.channels = 32;
    config.model.multipliers = {1, 2};
    config.model.blocks = 1;
    config.model.attention = {8};
    config.model.heads = 4;
    config.model.groups = 8;
  }
  config.train.batch = 32;
  config.train.micro_batch = config.train.batch / one.passes;
  config.train.precision = one.bf16 ? config::Precision::kBf16 : config::Precision::kFloat32;
  config.train.checkpoint_activations = one.checkpoint;
  config.parallel.strategy = one.strategy;
  config.parallel.sizes = one.sizes;
  config.parallel.given = true;
  config.parallel.chunks = one.chunks;
  config::resolve_strategy(draft);
  return config;
}

train::ReadSample reader(const Config& config) {
  if (config.model.has_images()) {
    return [](std::int64_t sample, std::span<const at::Tensor> data) {
      data[0].fill_(0.01 * static_cast<double>(sample));
    };
  }
  return train::read_tokens(
      [model = config.model](std::int64_t sample, std::int64_t* tokens, std::int64_t* targets) {
        for (std::int64_t i = 0; i < model.context; ++i) {
          tokens[i] = (sample * 7 + i * 5) % model.vocab;
          targets[i] = (sample * 3 + i * 11) % model.vocab;
        }
      });
}

/// Of the rank that has the most.
struct Peaks {
  Bytes real;
  Bytes dry;
  std::set<int> other_schedules;  ///< ranks whose real step is not that of the dry run
};

Peaks peaks_of(const Config& config) {
  const grid::Grid grid(config.parallel.sizes, config.parallel.placement);
  const train::Recipe recipe = train::recipe_of(config);
  Peaks peaks;
  std::mutex mutex;
  on_threads(grid.ranks(), [&](comm::World& world) {
    const StepRecord real = train::record_step(world, grid, recipe, reader(config));
    const StepRecord dry = train::dry_run(grid, world.rank(), recipe);
    const std::lock_guard lock(mutex);
    peaks.real = std::max(peaks.real, real.peak());
    peaks.dry = std::max(peaks.dry, dry.peak());
    if (real.schedule != dry.schedule) peaks.other_schedules.insert(world.rank());
  });
  return peaks;
}

class PredictedMemory : public testing::TestWithParam<Case> {};

TEST_P(PredictedMemory, IsThatOfARealStep) {
  const Config config = config_of(GetParam());
  const Peaks peaks = peaks_of(config);
  const Bytes planned = planner::Evaluation(config, planner::candidate_of(config)).memory();
  RecordProperty("measured", to_string(peaks.real));
  RecordProperty("dry_run", concat(peaks.dry / peaks.real));
  RecordProperty("planned", concat(planned / peaks.real));
  EXPECT_EQ(peaks.other_schedules, std::set<int>());
  EXPECT_NEAR(peaks.dry / peaks.real, 1, 0.03) << peaks.dry << " and " << peaks.real;
  EXPECT_NEAR(planned / peaks.real, 1, 0.03) << planned << " and " << peaks.real;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.strategy;
  std::erase(name, '.');
  return concat(name, "_", info.param.kind, "_", info.index);
}

INSTANTIATE_TEST_SUITE_P(EveryStrategy, PredictedMemory, testing::ValuesIn(cases()), name_of);

/// All strategies are among the cases of models of text together, and all but SUMMA among those of
/// U-Nets.
TEST(PredictedMemory, IsTestedForEveryStrategy) {
  const std::vector<Case> all = cases();
  for (const config::Strategy& strategy : config::strategies()) {
    for (const bool images : {false, true}) {
      if (images && strategy.summa) continue;
      EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Case& one) {
        return one.strategy == strategy.name && (one.kind == "unet") == images;
      })) << strategy.name;
    }
  }
  EXPECT_EQ(all.size(), 21U);
}

// --- the ranks that stand for all of them

train::Recipe images_on(const grid::Sizes& sizes) {
  Config config = config_of({.strategy = "4d", .sizes = sizes, .kind = "unet", .passes = 2});
  config.model.channels = 48;  // for three ranks
  config.model.groups = 12;
  config.model.heads = 12;
  config.train.batch = 24;
  config.train.micro_batch = 12;
  return train::recipe_of(config);
}

/// Ranks that swap channels send and hold more than those that keep theirs, among them the first.
TEST(TypicalRank, OfAUNetSendsAndHoldsAsMuchAsAny) {
  for (const grid::Sizes& sizes :
       {grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.x = 3, .y = 2}, grid::Sizes{.x = 2, .y = 3},
        grid::Sizes{.x = 2, .y = 4}, grid::Sizes{.x = 2, .y = 2, .z = 2},
        grid::Sizes{.x = 2, .y = 2, .pipe = 2}, grid::Sizes{.y = 4, .data = 2}}) {
    const train::Recipe recipe = images_on(sizes);
    const grid::Grid grid(sizes);
    for (int place = 0; place < sizes.pipe; ++place) {
      std::int64_t sent = 0;
      Bytes held;
      for (int rank = 0; rank < grid.ranks(); ++rank) {
        if (grid.coord_of(rank)[grid::Axis::kPipe] != place) continue;
        const StepRecord step = train::dry_run(grid, rank, recipe);
        std::int64_t bytes = 0;
        for (const auto& [key, count] : step.counts) bytes += count.wire.bytes.value();
        sent = std::max(sent, bytes);
        held = std::max(held, step.peak());
      }
      const int rank = train::typical_rank(grid, place, *recipe.model);
      const StepRecord typical = train::dry_run(grid, rank, recipe);
      EXPECT_EQ(typical.schedule.traffic().bytes.value(), sent) << sizes << ", place " << place;
      EXPECT_EQ(typical.peak(), held) << sizes << ", place " << place;
    }
  }
}

/// So the sends of a swap are among what the planner prices.
TEST(TypicalRank, IsWhatThePlannerRecords) {
  const Config config = config_of({.strategy = "4d", .sizes = {.x = 2, .y = 2}, .kind = "unet"});
  const planner::Candidate candidate = planner::candidate_of(config);
  const planner::Recorded recorded =
      planner::record(config, candidate, {.blocks = 1, .passes = 1, .places = 1});
  ASSERT_EQ(recorded.places.size(), 1U);
  const auto& steps = recorded.places[0].steps();
  EXPECT_GT(std::count_if(steps.begin(), steps.end(),
                          [](const schedule::Step& step) {
                            const auto* issue = std::get_if<schedule::Issue>(&step);
                            return issue != nullptr && issue->collective.op == schedule::Op::kSend;
                          }),
            0);
}

/// A grid is refused, or taken, for what the rank needs that needs the most.
TEST(TypicalRank, TellsTheMemoryOfAGrid) {
  for (const grid::Sizes& sizes : {grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.x = 2, .y = 3}}) {
    const train::Recipe recipe = images_on(sizes);
    Bytes largest;
    for (int rank = 0; rank < sizes.x * sizes.y; ++rank) {
      largest = std::max(largest, train::dry_run(grid::Grid(sizes), rank, recipe).peak());
    }
    EXPECT_EQ(train::peak_memory(recipe, sizes), largest) << sizes;
  }
}

}  // namespace
}  // namespace fourfold::test
