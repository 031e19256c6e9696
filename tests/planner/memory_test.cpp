// The memory that dry runs and the planner predict against the peak of a real step, for every
// strategy by its name on 8 ranks.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <mutex>

#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"
#include "fourfold/planner/predict.hpp"
#include "fourfold/train/dry_run.hpp"
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
  bool llama = false;
  bool bf16 = false;
  bool checkpoint = false;
  std::int64_t passes = 1;
  int chunks = 1;
};

std::vector<Case> cases() {
  return {{.strategy = "ddp", .sizes = {.data = 8}},
          {.strategy = "zero1", .sizes = {.data = 8}, .llama = true},
          {.strategy = "zero2", .sizes = {.data = 8}, .bf16 = true, .passes = 4},
          {.strategy = "zero3", .sizes = {.z = 8}, .llama = true, .checkpoint = true},
          {.strategy = "megatron", .sizes = {.y = 4, .data = 2}, .bf16 = true},
          {.strategy = "summa2d", .sizes = {.x = 2, .y = 2, .data = 2}},
          {.strategy = "summa2.5d", .sizes = {.x = 2, .y = 2, .z = 2}, .llama = true},
          {.strategy = "3d", .sizes = {.x = 2, .y = 2, .z = 2}, .bf16 = true, .checkpoint = true},
          {.strategy = "4d", .sizes = {.x = 2, .z = 2, .data = 2}, .passes = 4},
          {.strategy = "4d", .sizes = {.y = 2, .z = 2, .data = 2}, .llama = true, .bf16 = true},
          {.strategy = "4d", .sizes = {.x = 2, .data = 2, .pipe = 2}, .llama = true, .passes = 8},
          {.strategy = "deepspeed3d",
           .sizes = {.y = 2, .data = 2, .pipe = 2},
           .checkpoint = true,
           .passes = 4,
           .chunks = 2}};
}

Config config_of(const Case& one) {
  config::Draft draft{.config = {}, .file = {}, .places = {}};
  Config& config = draft.config;
  config.model.kind = one.llama ? "llama" : "gpt";
  config.model.vocab = 515;  // which nothing divides
  config.model.width = 128;
  config.model.heads = config.model.kv_heads = 8;
  config.model.hidden = 352;
  config.model.layers = 8;
  config.model.context = 64;
  config.model.tied = !one.llama;
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
  EXPECT_NEAR(peaks.dry / peaks.real, 1, 0.03) << peaks.dry << " and " << peaks.real;
  EXPECT_NEAR(planned / peaks.real, 1, 0.03) << planned << " and " << peaks.real;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.strategy;
  std::erase(name, '.');
  return concat(name, info.param.llama ? "_llama_" : "_gpt_", info.index);
}

INSTANTIATE_TEST_SUITE_P(EveryStrategy, PredictedMemory, testing::ValuesIn(cases()), name_of);

/// All strategies are among the cases, for both kinds of models together.
TEST(PredictedMemory, IsTestedForEveryStrategy) {
  const std::vector<Case> all = cases();
  for (const config::Strategy& strategy : config::strategies()) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Case& one) {
      return one.strategy == strategy.name;
    })) << strategy.name;
  }
  EXPECT_EQ(all.size(), 12U);
}

}  // namespace
}  // namespace fourfold::test
