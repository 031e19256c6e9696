// Training steps of a GPT by SUMMA: they follow one rank, a dry run does what a real one does, and
// both communicate what docs/summa.md says.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include "fourfold/train/dry_run.hpp"

#include "tests/support/ranks.hpp"
#include "tests/train/closed_forms.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using grid::Axes;
using grid::Axis;
using schedule::Op;
using tensor::Overlap;
using train::Recipe;
using train::StepRecord;
using train::StepResult;

/// 6 heads and samples: for sides of 2 and 3.
Recipe recipe_of(bool tied = true, std::int64_t steps = 6) {
  Recipe recipe = small_recipe(tied, steps);
  recipe.model.heads = 6;
  recipe.batch = 24;
  recipe.micro_batch = 12;
  return recipe;
}

Recipe summa(Recipe recipe) {
  recipe.model.algorithm = nn::Algorithm::kSumma;
  return recipe;
}

const std::vector<grid::Sizes> kGrids = {{},
                                         {.x = 2, .y = 2},
                                         {.x = 2, .y = 2, .data = 3},
                                         {.x = 3, .y = 3},
                                         {.x = 3, .y = 3, .data = 2},
                                         {.z = 3},
                                         {.x = 2, .y = 2, .z = 2},
                                         {.x = 2, .y = 2, .z = 3},
                                         {.x = 3, .y = 3, .z = 2, .data = 2}};

// --- what a step communicates

/// The closed form of a pass forward and backward, in float64 or bf16.
class Forms {
 public:
  Forms(const grid::Grid& grid, const Recipe& recipe)
      : grid_(grid),
        spec_(recipe.model),
        q_(grid.size(Axis::kX)),
        e_(static_cast<std::int64_t>(c10::elementSize(spec_.precision.compute))),
        master_(static_cast<std::int64_t>(c10::elementSize(spec_.precision.master))),
        f_(std::max<std::int64_t>(e_, 4)),
        rows_(recipe.micro_batch * spec_.context / grid.size({Axis::kData, Axis::kZ, Axis::kY})) {}

  CallsBy pass(bool diagonal) {
    const std::int64_t h = spec_.width;
    for (int way = 0; way < 2; ++way) {  // lookup and its gradient
      add(way == 0 ? Op::kReduceScatter : Op::kAllGather, Axis::kX, q_ * rows_ * h / q_ * e_);
      if (diagonal) continue;
      add(Op::kSend, {Axis::kX, Axis::kY}, rows_ * h / q_ * e_);
      add(Op::kRecv, {Axis::kX, Axis::kY}, rows_ * h / q_ * e_);
    }
    const std::int64_t positions = split(spec_.context) * h / q_;
    add(Op::kAllGather, {Axis::kY, Axis::kZ}, positions * e_);
    add(Op::kReduceScatter, {Axis::kY, Axis::kZ}, positions * master_);
    for (std::int64_t i = 0; i < spec_.layers; ++i) block();
    vectors(2 * split(h / q_));
    norms(1, 1);
    product(h, q_ * ((spec_.vocabulary + q_ - 1) / q_), 1);
    add(Op::kAllReduce, Axis::kX, rows_ * f_);
    add(Op::kAllReduce, Axis::kX, 2 * rows_ * f_);
    return result_;
  }

 private:
  void add(Op op, const Axes& axes, std::int64_t payload, std::int64_t calls = 1) {
    if (grid_.size(axes) == 1) return;
    Calls& all = result_[{op, grid::to_string(axes)}];
    all.calls += calls;
    all.payload += payload;
  }
  /// n elements split over y and then z, with padding, times both.
  std::int64_t split(std::int64_t n) const {
    const std::int64_t y = grid_.size(Axis::kY);
    const std::int64_t z = grid_.size(Axis::kZ);
    return y * z * (((n + y - 1) / y + z - 1) / z);
  }
  void vectors(std::int64_t elements) {
    add(Op::kAllGather, {Axis::kY, Axis::kZ}, elements * master_);
    add(Op::kReduceScatter, {Axis::kY, Axis::kZ}, elements * master_);
  }
  void norms(std::int64_t forward, std::int64_t backward) {
    add(Op::kAllGather, Axis::kX, forward * 2 * q_ * rows_ * f_, forward);
    add(Op::kAllReduce, Axis::kX, backward * 2 * rows_ * f_, backward);
  }
  /// One matrix product, so many times forward and once backward.
  void product(std::int64_t in, std::int64_t out, std::int64_t forward) {
    const std::int64_t input = rows_ * in / q_ * e_;
    const std::int64_t weight = in * out / (q_ * q_) * e_;
    add(Op::kBroadcast, Axis::kX, (forward + 1) * q_ * input, (forward + 1) * q_);
    add(Op::kBroadcast, Axis::kY, (forward + 1) * q_ * weight, (forward + 1) * q_);
    add(Op::kReduce, Axis::kX, q_ * input, q_);
    add(Op::kReduce, Axis::kY, q_ * weight, q_);
  }
  void block() {
    const std::int64_t h = spec_.width;
    const std::int64_t forward = spec_.checkpoint ? 2 : 1;
    vectors(6 * split(h / q_) + split(3 * h / q_) + split(4 * h / q_));
    norms(2 * forward, 2);
    product(h, 3 * h, forward);
    product(h, h, forward);
    product(h, 4 * h, forward);
    product(4 * h, h, forward);
  }

  const grid::Grid& grid_;
  const model::GptSpec& spec_;
  std::int64_t q_;
  std::int64_t e_, master_, f_;
  std::int64_t rows_;  // of a rank
  CallsBy result_;
};

/// Without the optimizer's operations over data and over all ranks, which every strategy has.
CallsBy of_passes(const comm::Counts& counts) {
  CallsBy all = counted(counts);
  std::erase_if(all, [](const auto& item) {
    return item.first.second.starts_with("data") || item.first.second == "all";
  });
  return all;
}

/// Panels and their sums: every rank sends (q-1)/q of the payload, in one message a panel.
bool sends_all_but_one(const comm::Counts& counts) {
  for (const auto& [key, count] : counts) {
    if (key.op != Op::kBroadcast && key.op != Op::kReduce) continue;
    const std::int64_t q = key.group_size;
    if (count.wire.bytes.value() * q != count.payload.value() * (q - 1)) return false;
    if (count.wire.messages * q != count.calls * (q - 1)) return false;
  }
  return true;
}

void compare(comm::World& world, const grid::Grid& grid, const Recipe& recipe) {
  const StepRecord real = train::record_step(world, grid, recipe, read_sample);
  const StepRecord dry = train::dry_run(grid, world.rank(), recipe);
  expect_on_all_ranks(world, real.schedule == dry.schedule, concat(grid, ": schedules differ"));
  const grid::Coord coord = grid.coord_of(world.rank());
  CallsBy expected = Forms(grid, recipe).pass(coord[Axis::kX] == coord[Axis::kY]);
  for (auto& [key, calls] : expected) {
    calls.calls *= recipe.batch / recipe.micro_batch;
    calls.payload *= recipe.batch / recipe.micro_batch;
  }
  expect_on_all_ranks(
      world, of_passes(real.counts) == expected,
      concat(grid, ":\n", to_string(of_passes(real.counts)), "\nagainst\n", to_string(expected)));
  expect_on_all_ranks(world, of_passes(dry.counts) == expected, "counters of the dry run");
  const bool bf16 = recipe.model.precision.compute == at::kBFloat16;
  expect_on_all_ranks(world, bf16 || sends_all_but_one(real.counts), "bytes or messages");
}

TEST(SummaStep, ADryRunDoesWhatARealRunDoesAndWhatTheFormsSay) {
  for (const grid::Sizes& sizes : kGrids) {
    const grid::Grid grid(sizes);
    for (const bool checkpoint : {false, true}) {
      for (const Overlap& overlap : {Overlap(), Overlap::none()}) {
        Recipe recipe = summa(recipe_of(!checkpoint));
        recipe.model.checkpoint = checkpoint;
        if (checkpoint) recipe.model.precision = nn::Precision::bf16();
        recipe.overlap = overlap;
        on_threads(grid.ranks(), [&](comm::World& world) { compare(world, grid, recipe); });
      }
    }
  }
}

TEST(SummaStep, PeakOfADryRunIsThatOfARealRun) {
  Recipe recipe = summa(recipe_of());
  recipe.model.vocabulary = 515;
  recipe.model.width = 144;
  const grid::Grid grid({.x = 3, .y = 3});
  on_threads(9, [&](comm::World& world) {
    const StepRecord real = train::record_step(world, grid, recipe, read_sample);
    const StepRecord dry = train::dry_run(grid, world.rank(), recipe);
    for (std::size_t i = 0; i < tensor::kMemoryClasses; ++i) {
      const double a = static_cast<double>(dry.peaks.by_class[i].value());
      const double b = static_cast<double>(real.peaks.by_class[i].value());
      expect_on_all_ranks(
          world, std::abs(a - b) <= 0.01 * b,
          concat(to_string(static_cast<tensor::MemoryClass>(i)), " dry ", a, ", real ", b));
    }
  });
}

// --- training

/// On those of the grids that have the depth that is wanted.
template <class Wanted>
void expect_to_follow(const Wanted& wanted) {
  for (const bool tied : {true, false}) {
    const std::vector<StepResult> alone = train_alone(recipe_of(tied));
    for (const grid::Sizes& sizes : kGrids) {
      if (!wanted(sizes.z)) continue;
      const grid::Grid grid(sizes);
      Recipe recipe = summa(recipe_of(tied));
      recipe.model.checkpoint = !tied;
      on_threads(grid.ranks(), [&](comm::World& world) {
        const double worst = difference(train_on(world, grid, recipe), alone);
        expect_on_all_ranks(world, worst <= 1e-10, concat(grid, ": ", worst));
      });
    }
  }
}

TEST(SummaStep, TrainingInTwoDimensionsFollowsOneRank) {
  expect_to_follow([](int depth) { return depth == 1; });
}

/// The optimizer sums the gradients of weights over the depth.
TEST(SummaStep, TrainingInTwoAndAHalfDimensionsFollowsOneRank) {
  expect_to_follow([](int depth) { return depth > 1; });
}

TEST(SummaStep, WithEveryStageOfZeroAndWithAPipelineItFollowsOneRank) {
  const std::vector<StepResult> alone = train_alone(recipe_of());
  const auto check = [&](const grid::Sizes& sizes, optim::Zero zero) {
    const grid::Grid grid(sizes);
    Recipe recipe = summa(recipe_of());
    recipe.optimizer.zero = zero;
    on_threads(grid.ranks(), [&](comm::World& world) {
      const double worst = difference(train_on(world, grid, recipe), alone);
      expect_on_all_ranks(world, worst <= 1e-10, concat(grid, ": ", worst));
    });
  };
  check({.x = 2, .y = 2, .z = 2}, optim::Zero::kNothing);
  check({.x = 2, .y = 2, .z = 3}, optim::Zero::kGradients);
  check({.x = 2, .y = 2, .z = 2, .pipe = 2}, optim::Zero::kMoments);
}

TEST(SummaStep, OverlapsChangeNoBit) {
  for (const grid::Sizes& sizes :
       {grid::Sizes{.x = 3, .y = 3}, grid::Sizes{.x = 2, .y = 2, .data = 2}}) {
    const grid::Grid grid(sizes);
    std::vector<StepResult> expected;
    for (int bits = 0; bits < 16; ++bits) {
      Recipe recipe = summa(recipe_of(true, 3));
      recipe.overlap = Overlap::none();
      recipe.overlap.segment = 12000;
      recipe.overlap.panels = (bits & 1) != 0;
      recipe.overlap.input_gradients = (bits & 2) != 0;
      recipe.overlap.weight_gradients = (bits & 4) != 0;
      recipe.overlap.data = (bits & 8) != 0;
      recipe.overlap.window = bits < 8 ? 2000 : 1 << 20;
      std::vector<StepResult> results;
      on_threads(grid.ranks(), [&](comm::World& world) {
        const auto own = train_on(world, grid, recipe);
        if (world.rank() == 0) results = own;
      });
      if (expected.empty()) expected = results;
      ASSERT_EQ(results.size(), expected.size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(results[i].loss, expected[i].loss) << grid << " " << bits;
        EXPECT_EQ(results[i].grad_norm, expected[i].grad_norm) << grid << " " << bits;
      }
    }
  }
}

TEST(SummaStep, ValidationIsThatOfOneRank) {
  const auto validate = [](comm::World& world, const grid::Grid& grid, const Recipe& recipe) {
    const tensor::Mesh mesh(world, grid);
    return train::Trainer(mesh, recipe).validate(3, read_sample);
  };
  double expected = 0;
  on_threads(1, [&](comm::World& world) { expected = validate(world, grid::Grid(), recipe_of()); });
  for (const grid::Sizes& sizes : kGrids) {
    const grid::Grid grid(sizes);
    on_threads(grid.ranks(), [&](comm::World& world) {
      const double loss = validate(world, grid, summa(recipe_of()));
      expect_on_all_ranks(world, std::abs(loss / expected - 1) < 1e-10, concat(grid, ": ", loss));
    });
  }
}

}  // namespace
}  // namespace fourfold::test
