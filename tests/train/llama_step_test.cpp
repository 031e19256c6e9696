// What a training step of a Llama communicates: a real run, a dry run and the closed form agree, on
// every grid, wherever ranks share heads of keys and values.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/model/llama.hpp"
#include "fourfold/train/dry_run.hpp"

#include "tests/support/ranks.hpp"
#include "tests/train/closed_forms.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using model::LlamaSpec;
using nn::Activations;
using train::Recipe;
using train::StepRecord;

/// Sizes that do not divide: the vocabulary by anything, the weights' rows by z. A head of keys and
/// values can be cut into slices for all the heads that share it.
LlamaSpec spec_of(std::int64_t heads, std::int64_t kv_heads) {
  LlamaSpec spec;
  spec.vocabulary = 37;
  spec.heads = heads;
  spec.kv_heads = kv_heads;
  const std::int64_t sharing = heads / kv_heads;
  spec.width = heads * sharing * (sharing % 2 == 0 ? 1 : 2);  // a head has pairs to rotate
  spec.hidden = 24;
  spec.layers = 2;
  spec.context = 8;
  spec.execution.precision = nn::Precision::float64();
  return spec;
}

Recipe recipe_of(const LlamaSpec& spec, std::int64_t samples, std::int64_t passes) {
  Recipe recipe;
  recipe.model = std::make_shared<model::LlamaModel>(spec);
  recipe.batch = samples * passes;
  recipe.micro_batch = samples;
  recipe.learning_rate = {.largest = 1e-2, .smallest = 1e-3, .warmup = 3, .steps = 10};
  return recipe;
}

/// With and without checkpointing, tied, replicated and in bf16; one pass and several; with and
/// without halves and kept weights.
std::vector<Recipe> settings(const LlamaSpec& base, std::int64_t samples) {
  std::vector<Recipe> all;
  for (const bool checkpoint : {false, true}) {
    for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
      LlamaSpec spec = base;
      spec.execution.checkpoint = checkpoint;
      spec.execution.activations = activations;
      spec.tied = activations == Activations::kReplicated;
      if (checkpoint) spec.execution.precision = nn::Precision::bf16();
      Recipe recipe = recipe_of(spec, samples, checkpoint == spec.tied ? 1 : 3);
      all.push_back(recipe);
      recipe.overlap = tensor::Overlap::none();
      all.push_back(recipe);
    }
  }
  return all;
}

std::string shown(const grid::Grid& grid, const Recipe& recipe) {
  const model::Execution& how = recipe.model->execution();
  return concat(recipe.model->sizes(), " on ", grid, how.checkpoint ? ", checkpointed" : "",
                how.activations == Activations::kSharded ? ", sharded" : ", replicated",
                recipe.overlap.halves ? ", in halves" : "", ":\n");
}

void expect_forms(const grid::Grid& grid, const Recipe& recipe) {
  on_threads(grid.ranks(), [&](comm::World& world) {
    const StepRecord real = train::record_step(world, grid, recipe, small_samples());
    const StepRecord dry = train::dry_run(grid, world.rank(), recipe);
    expect_on_all_ranks(world, real.schedule == dry.schedule, shown(grid, recipe) + "schedules");
    const CallsBy expected = closed_form(grid, recipe, world.rank());
    const std::string wrong = difference(counted(real.counts), expected);
    expect_on_all_ranks(world, wrong.empty(), shown(grid, recipe) + wrong);
    expect_on_all_ranks(world, counted(dry.counts) == expected, "counters of the dry run");
  });
}

/// The same without a real run, for many settings.
void expect_dry_forms(const grid::Grid& grid, const Recipe& recipe) {
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const CallsBy own = counted(train::dry_run(grid, rank, recipe).counts);
    EXPECT_EQ(difference(own, closed_form(grid, recipe, rank)), "")
        << shown(grid, recipe) << "rank " << rank << " of " << recipe.chunks << " chunks";
  }
}

class LlamaStepOnGridsOf8 : public testing::TestWithParam<grid::Sizes> {};

TEST_P(LlamaStepOnGridsOf8, SendsWhatTheClosedFormSays) {
  const grid::Grid grid(GetParam());
  for (const Recipe& recipe : settings(spec_of(8, 2), 16)) expect_forms(grid, recipe);
}

TEST_P(LlamaStepOnGridsOf8, SendsWhatTheClosedFormSaysForAnyNumberOfKvHeads) {
  const grid::Grid grid(GetParam());
  for (const std::int64_t kv_heads : {1, 4, 8}) {
    for (const Recipe& recipe : settings(spec_of(8, kv_heads), 16)) expect_dry_forms(grid, recipe);
  }
}

std::string name_of(const testing::TestParamInfo<grid::Sizes>& info) {
  const grid::Sizes& s = info.param;
  return concat("x", s.x, "y", s.y, "z", s.z, "data", s.data);
}

INSTANTIATE_TEST_SUITE_P(Llama, LlamaStepOnGridsOf8,
                         testing::ValuesIn(grid::factorisations(8, {Axis::kX, Axis::kY, Axis::kZ,
                                                                    Axis::kData})),
                         name_of);

/// Ranks that share are a part of x, of y, or of both: three of the six ranks of 3 x 2 are one and
/// a half rows.
TEST(LlamaStep, RanksThatShareAreAPartOfAnAxis) {
  for (const Recipe& recipe : settings(spec_of(8, 4), 8)) {
    expect_forms(grid::Grid({.x = 8}), recipe);
    expect_forms(grid::Grid({.y = 8}), recipe);
  }
  for (const Recipe& recipe : settings(spec_of(6, 2), 12)) {
    expect_forms(grid::Grid({.x = 2, .y = 3}), recipe);
    expect_forms(grid::Grid({.x = 3, .y = 2}), recipe);
  }
}

/// The heads do not divide by x times y, but by y.
TEST(LlamaStep, AttentionSplitBySamples) {
  for (const Recipe& recipe : settings(spec_of(4, 1), 16)) {
    expect_forms(grid::Grid({.x = 4, .y = 2}), recipe);
    expect_forms(grid::Grid({.x = 2, .y = 4}), recipe);
  }
}

TEST(LlamaStep, BySumma) {
  for (const std::int64_t kv_heads : {1, 2, 4}) {
    for (Recipe recipe : settings(spec_of(4, kv_heads), 16)) {
      LlamaSpec spec = dynamic_cast<const model::LlamaModel&>(*recipe.model).spec();
      spec.execution.product = nn::ProductKind::kSumma;
      spec.execution.activations = Activations::kSharded;
      recipe.model = std::make_shared<model::LlamaModel>(spec);
      expect_forms(grid::Grid({.x = 2, .y = 2, .z = 2}), recipe);
      expect_forms(grid::Grid({.x = 2, .y = 2, .data = 2}), recipe);
      expect_dry_forms(grid::Grid({.x = 4, .y = 4, .z = 2}), recipe);
    }
  }
}

TEST(LlamaStep, InAPipeline) {
  for (const grid::Sizes& sizes :
       {grid::Sizes{.y = 4, .pipe = 2}, grid::Sizes{.x = 2, .y = 2, .pipe = 2},
        grid::Sizes{.x = 4, .z = 2, .pipe = 2},
        grid::Sizes{.x = 2, .y = 2, .z = 2, .data = 2, .pipe = 2}}) {
    LlamaSpec spec = spec_of(8, 2);
    spec.layers = 5;
    for (Recipe recipe : settings(spec, 8)) {
      recipe.batch = 32;
      for (const int chunks : {1, 2}) {
        recipe.chunks = chunks;
        expect_dry_forms(grid::Grid(sizes), recipe);
      }
    }
  }
}

}  // namespace
}  // namespace fourfold::test
