// The dry run against real runs: the same operations in the same order, the same memory; and both
// against the closed forms.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/dry_run.hpp"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "fourfold/train/rank_memory.hpp"
#include "fourfold/train/setup.hpp"

#include "tests/model/reference.hpp"
#include "tests/support/every_way.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/closed_forms.hpp"
#include "tests/train/gpt_recipe.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using model::GptSpec;
using nn::Activations;
using Recipe = GptRecipe;
using train::StepRecord;

GptSpec odd_spec() {
  GptSpec spec;
  spec.vocabulary = 37;
  spec.width = 24;
  spec.heads = 8;
  spec.layers = 2;
  spec.context = 8;
  spec.dropout = 0.1;
  spec.execution.precision = nn::Precision::float64();
  return spec;
}

/// Settings that change what is communicated.
std::vector<GptSpec> settings(const GptSpec& base) {
  std::vector<GptSpec> all;
  for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
    for (const bool checkpoint : {false, true}) {
      GptSpec spec = base;
      spec.execution.activations = activations;
      spec.execution.checkpoint = checkpoint;
      spec.tied = !checkpoint;
      spec.execution.precision = checkpoint ? nn::Precision::bf16() : base.execution.precision;
      all.push_back(spec);
    }
  }
  return all;
}

/// The first step that differs, for people.
std::string difference(const schedule::Schedule& a, const schedule::Schedule& b) {
  for (std::size_t i = 0; i < std::min(a.steps().size(), b.steps().size()); ++i) {
    if (a.steps()[i] != b.steps()[i]) {
      return concat("step ", i, ": ", schedule::to_string(a.steps()[i]), " against ",
                    schedule::to_string(b.steps()[i]));
    }
  }
  return concat(a.steps().size(), " steps against ", b.steps().size());
}

Recipe recipe_of(const GptSpec& spec, std::int64_t passes = 1) {
  Recipe recipe;
  recipe.model = spec;
  recipe.batch = 8 * passes;
  recipe.micro_batch = 8;
  return recipe;
}

/// Everything off; everything on, in small pieces; some of it.
std::vector<tensor::Overlap> overlaps() {
  tensor::Overlap on;
  on.segment = 20000;
  on.window = 9000;
  tensor::Overlap some = on;
  some.halves = some.keep_weights = false;
  some.window = 1;
  return {tensor::Overlap::none(), on, some};
}

/// Any tokens.
train::ReadSample reader(const GptSpec& spec) {
  return train::read_tokens(
      [spec](std::int64_t sample, std::int64_t* tokens, std::int64_t* targets) {
        for (std::int64_t i = 0; i < spec.context; ++i) {
          tokens[i] = (sample * 7 + i * 5) % spec.vocabulary;
          targets[i] = (sample * 3 + i * 11) % spec.vocabulary;
        }
      });
}

/// A real step and a dry one, held against each other and the closed form.
void compare(comm::World& world, const grid::Grid& grid, const Recipe& given,
             const tensor::Overlap& overlap) {
  Recipe recipe = given;
  recipe.overlap = overlap;
  const StepRecord real = train::record_step(world, grid, recipe, reader(recipe.model));
  const StepRecord dry = train::dry_run(grid, world.rank(), recipe);
  expect_on_all_ranks(world, real.schedule == dry.schedule,
                      concat(grid, ": ", difference(real.schedule, dry.schedule)));
  const CallsBy expected = closed_form(grid, recipe, world.rank());
  const std::string wrong = difference(counted(real.counts), expected);
  expect_on_all_ranks(world, wrong.empty(), concat(grid, ":\n", wrong));
  expect_on_all_ranks(world, counted(dry.counts) == expected, "counters of the dry run");
}

void compare(const grid::Grid& grid, const Recipe& recipe) {
  for (const tensor::Overlap& overlap : overlaps()) {
    on_threads(grid.ranks(), [&](comm::World& world) { compare(world, grid, recipe, overlap); });
  }
}

class DryRunOnGridsOf8 : public testing::TestWithParam<grid::Sizes> {};

TEST_P(DryRunOnGridsOf8, DoesWhatARealRunDoes) {
  const grid::Grid grid(GetParam());
  for (const GptSpec& spec : settings(odd_spec())) {
    compare(grid, recipe_of(spec));
  }
}

std::string name_of(const testing::TestParamInfo<grid::Sizes>& info) {
  const grid::Sizes& s = info.param;
  return concat("x", s.x, "y", s.y, "z", s.z, "data", s.data);
}

INSTANTIATE_TEST_SUITE_P(Gpt, DryRunOnGridsOf8,
                         testing::ValuesIn(grid::factorisations(8, {Axis::kX, Axis::kY, Axis::kZ,
                                                                    Axis::kData})),
                         name_of);

TEST(DryRun, AttentionSplitBySamples) {
  GptSpec base = odd_spec();
  base.heads = 2;  // not a multiple of x times y
  for (const grid::Sizes& sizes : {grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.x = 4, .y = 1},
                                   grid::Sizes{.x = 2, .y = 2, .z = 2}}) {
    const grid::Grid grid(sizes);
    for (const GptSpec& spec : settings(base)) {
      compare(grid, recipe_of(spec));
    }
  }
}

TEST(DryRun, SeveralPassesAStep) {
  for (const grid::Sizes& sizes : {grid::Sizes{.x = 2, .z = 2}, grid::Sizes{.y = 2, .data = 2}}) {
    const grid::Grid grid(sizes);
    for (const GptSpec& spec : settings(odd_spec())) {
      compare(grid, recipe_of(spec, 3));
    }
  }
}

/// How many messages a tensor is cut into depends on whether its group spans hosts, and on how many
/// ranks are on one.
TEST(DryRun, CountsTheMessagesOfSeveralHosts) {
  GptSpec spec = odd_spec();
  spec.width = 128;
  spec.context = 64;
  for (const grid::Sizes& sizes : {grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.z = 2, .data = 2},
                                   grid::Sizes{.y = 2, .pipe = 2}}) {
    const grid::Grid grid(sizes);
    const Recipe recipe = recipe_of(spec, 2);
    for (const int ranks_per_host : {1, 3}) {
      on_threads(
          grid.ranks(),
          [&](comm::World& world) {
            const int rank = world.rank();
            const StepRecord real = train::record_step(world, grid, recipe, reader(spec));
            const StepRecord dry = train::dry_run(grid, rank, recipe, ranks_per_host);
            const StepRecord one_host = train::dry_run(grid, rank, recipe);
            const std::string where = concat(grid, ", ", ranks_per_host, " a host: ");
            expect_on_all_ranks(world, real.schedule == dry.schedule,
                                where + difference(real.schedule, dry.schedule));
            expect_on_all_ranks(world, counted(real.counts) == counted(dry.counts),
                                where + difference(counted(real.counts), counted(dry.counts)));
            // With all ranks apart every group spans hosts.
            expect_on_all_ranks(
                world, ranks_per_host > 1 || counted(real.counts) != counted(one_host.counts),
                where + "as many messages as on one host");
          },
          {.threads_per_host = ranks_per_host});
    }
  }
}

/// What the choice of a grid rests on. The optimizer's pieces are rounded up, which a model as
/// small as this one feels.
TEST(DryRun, FewLayersAndPassesTellWhatManySend) {
  GptSpec spec = odd_spec();
  spec.layers = 4;
  const Recipe recipe = recipe_of(spec, 5);
  for (const grid::Sizes& sizes :
       grid::factorisations(8, {Axis::kX, Axis::kY, Axis::kZ, Axis::kData})) {
    double sent = 0;
    for (const auto& [key, count] : train::dry_run(grid::Grid(sizes), 0, recipe).counts) {
      sent += static_cast<double>(count.wire.bytes.value());
    }
    EXPECT_NEAR(train::estimate(recipe, sizes).bytes, sent, 0.02 * sent) << grid::Grid(sizes);
  }
}

TEST(DryRun, PeakIsThatOfARealRun) {
  GptSpec base = odd_spec();
  base.vocabulary = 515;
  base.width = 128;
  base.context = 64;
  base.layers = 3;
  tensor::Overlap overlap;
  overlap.segment = 300000;
  overlap.window = 200000;
  overlap.keep = 500000;
  for (const grid::Sizes& sizes : {grid::Sizes{}, grid::Sizes{.x = 2, .y = 2},
                                   grid::Sizes{.y = 2, .z = 2}, grid::Sizes{.x = 2, .data = 2}}) {
    const grid::Grid grid(sizes);
    for (const GptSpec& spec : settings(base)) {
      on_threads(grid.ranks(), [&](comm::World& world) {
        Recipe recipe = recipe_of(spec);
        recipe.overlap = spec.tied ? overlap : tensor::Overlap::none();
        const StepRecord real = train::record_step(world, grid, recipe, reader(spec));
        const StepRecord dry = train::dry_run(grid, world.rank(), recipe);
        const double ratio = static_cast<double>(dry.at_peak.total().value()) /
                             static_cast<double>(real.at_peak.total().value());
        expect_on_all_ranks(
            world, std::abs(ratio - 1) < 0.01,
            concat(grid, ": dry ", dry.at_peak.total(), ", real ", real.at_peak.total()));
        for (std::size_t i = 0; i < tensor::kPlannedClasses; ++i) {
          const double a = static_cast<double>(dry.peaks.by_class[i].value());
          const double b = static_cast<double>(real.peaks.by_class[i].value());
          expect_on_all_ranks(world, std::abs(a - b) <= 0.01 * b,
                              concat(grid, ": ", to_string(static_cast<tensor::MemoryClass>(i)),
                                     " dry ", a, ", real ", b));
        }
      });
    }
  }
}

/// A machine of one kind is to tell what a run needs on another.
TEST(DryRun, MemoryDoesNotDependOnTheProcessor) {
  for (const GptSpec& spec : settings(odd_spec())) {
    std::vector<StepRecord> records;
    for (const Choice choice : {Choice::kBf16Products, Choice::kVectors}) {
      in_every_way(choice, [&](bool) {
        records.push_back(train::dry_run(grid::Grid({.x = 2, .y = 2}), 1, recipe_of(spec)));
      });
    }
    for (const StepRecord& record : records) {
      EXPECT_EQ(record.peaks, records[0].peaks);
      EXPECT_EQ(record.at_peak, records[0].at_peak);
      EXPECT_EQ(record.peaks[tensor::MemoryClass::kWorkspace], Bytes(0));
      EXPECT_EQ(record.schedule, records[0].schedule);
    }
  }
}

/// Values are made where they stay, so a model takes no more while it is built than in a step, and
/// what it takes is known before.
TEST(DryRun, ConstructionTakesNoMoreThanTheFirstStep) {
  GptSpec spec = odd_spec();
  spec.vocabulary = 515;
  spec.width = 128;
  spec.layers = 3;
  const std::vector<grid::Sizes> grids = {{},
                                          {.data = 4},
                                          {.x = 2, .y = 2},
                                          {.y = 2, .z = 2},
                                          {.z = 2, .data = 2},
                                          {.data = 2, .pipe = 2},
                                          {.z = 2, .pipe = 2}};
  for (const nn::Precision precision : {nn::Precision::bf16(), nn::Precision::float32()}) {
    for (const optim::Zero zero :
         {optim::Zero::kNothing, optim::Zero::kMoments, optim::Zero::kGradients}) {
      for (const grid::Sizes& sizes : grids) {
        if (sizes.pipe > 1 && zero == optim::Zero::kGradients) continue;  // it is refused
        const grid::Grid grid(sizes);
        spec.execution.precision = precision;
        Recipe recipe = recipe_of(spec);
        recipe.optimizer.zero = zero;
        on_threads(grid.ranks(), [&](comm::World& world) {
          const StepRecord real = train::record_step(world, grid, recipe, reader(spec));
          const StepRecord dry = train::dry_run(grid, world.rank(), recipe);
          const std::string where = concat(grid, ", level ", static_cast<int>(zero), " of ",
                                           c10::toString(precision.compute));
          const auto built = static_cast<double>(real.construction.total().value());
          expect_on_all_ranks(world, real.construction.total() <= real.at_peak.total(),
                              concat(where, ": ", real.construction.total(), " to be built, ",
                                     real.at_peak.total(), " in the step"));
          expect_on_all_ranks(world,
                              std::abs(static_cast<double>(dry.construction.total().value()) -
                                       built) <= 0.01 * built,
                              concat(where, ": dry ", dry.construction.total(), ", real ", built));
        });
      }
    }
  }
}

/// To the byte, in a model whose parameters are larger than the piece that is made at once.
TEST(DryRun, ConstructionIsWhatStays) {
  GptSpec spec;
  spec.vocabulary = 51200;
  spec.width = 4096;
  spec.heads = 32;
  spec.layers = 4;
  spec.context = 2048;
  spec.execution.precision = nn::Precision::bf16();
  // Of many ranks along data, each keeps little beside the values: copies of these would show.
  for (const auto& [sizes, zero] : {std::pair(grid::Sizes{}, optim::Zero::kNothing),
                                    {{.z = 2, .data = 4}, optim::Zero::kMoments},
                                    {{.z = 2, .data = 64}, optim::Zero::kGradients}}) {
    Recipe recipe = recipe_of(spec);
    recipe.batch = recipe.micro_batch = 128;
    recipe.optimizer.zero = zero;
    const StepRecord dry = train::dry_run(grid::Grid(sizes), 0, recipe);
    // For each element 2 bytes in bf16, 4 of the gradient, and 12 of the master copy and the
    // moments; of the latter, and with level 2 of the gradient, only of this rank's part.
    const double elements = (51200.0 * 4096 + 2048 * 4096 + 4 * 12 * 4096.0 * 4096) / sizes.z;
    const double gradients = zero == optim::Zero::kGradients ? 4.0 / sizes.data : 4.0;
    const double expected = elements * (2 + gradients + 12.0 / sizes.data);
    EXPECT_NEAR(static_cast<double>(dry.construction.total().value()), expected, 1e-3 * expected);
    EXPECT_LT(dry.construction.total(), dry.at_peak.total());
    EXPECT_EQ(dry.peak(), dry.at_peak.total());
    EXPECT_NEAR(static_cast<double>(dry.peaks[tensor::MemoryClass::kParameters].value()),
                2 * elements, 2e-3 * elements);
  }
}

/// The process's resident memory, in bytes.
std::int64_t resident() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t pages = 0;
  file >> total >> pages;
  return pages * 4096;
}

/// Attention of bf16 is computed in f32 here: what a device that multiplies bf16 would not do is
/// marked, and nothing else.
TEST(DryRun, MarksWhatIsComputedInAWiderType) {
  for (const bool bf16 : {false, true}) {
    GptSpec spec = odd_spec();
    spec.execution.precision = bf16 ? nn::Precision::bf16() : nn::Precision::float32();
    const StepRecord step = train::dry_run(grid::Grid({.x = 2}), 0, recipe_of(spec));
    int marked = 0;
    for (const schedule::Step& one : step.schedule.steps()) {
      const auto* compute = std::get_if<schedule::Compute>(&one);
      if (compute == nullptr) continue;
      const bool attention = compute->arithmetic.work == schedule::Work::kAttention ||
                             compute->name == "attention cast";
      EXPECT_EQ(compute->arithmetic.widened, bf16 && attention) << schedule::to_string(*compute);
      marked += compute->arithmetic.widened ? 1 : 0;
    }
    EXPECT_EQ(marked > 0, bf16);
  }
}

TEST(DryRun, AllocatesNothingForAModelOfManyGigabytes) {
  GptSpec spec;
  spec.vocabulary = 51200;
  spec.width = 12288;
  spec.heads = 96;
  spec.layers = 2;
  spec.context = 2048;
  spec.execution.precision = nn::Precision::bf16();
  const grid::Grid grid({.x = 2, .y = 4, .z = 16, .data = 8});
  const std::int64_t before = resident();
  Recipe recipe = recipe_of(spec);
  recipe.batch = recipe.micro_batch = 1024;
  const StepRecord record = train::dry_run(grid, 517, recipe);
  EXPECT_GT(record.at_peak.total().value(), std::int64_t{3} << 30);
  EXPECT_LT(resident() - before, std::int64_t{64} << 20);
  recipe.overlap.keep_weights = false;  // the default keeps some of them
  // How many messages a large tensor is cut into depends on who waits for it.
  const auto without_messages = [](CallsBy all) {
    for (auto& [key, calls] : all) calls.messages = 0;
    return all;
  };
  EXPECT_EQ(difference(without_messages(counted(train::dry_run(grid, 517, recipe).counts)),
                       without_messages(closed_form(grid, recipe, 517))),
            "");
}

}  // namespace
}  // namespace fourfold::test
