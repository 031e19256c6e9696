// Overlaps change when things are communicated, and nothing else: training with each of them, alone
// and together, follows one rank on every grid.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/overlap.hpp"

#include <array>
#include <random>

#include <gtest/gtest.h>

#include "fourfold/comm/world.hpp"
#include "fourfold/train/trainer.hpp"

#include "tests/support/ranks.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using nn::Activations;
using tensor::Overlap;
using Recipe = GptRecipe;
using train::StepResult;

constexpr std::int64_t kSteps = 4;

struct Switch {
  const char* name;
  bool Overlap::*on;
};
constexpr std::array<Switch, 7> kSwitches = {{{"input_gradients", &Overlap::input_gradients},
                                              {"weight_gradients", &Overlap::weight_gradients},
                                              {"weights", &Overlap::weights},
                                              {"keep_weights", &Overlap::keep_weights},
                                              {"data", &Overlap::data},
                                              {"halves", &Overlap::halves},
                                              {"panels", &Overlap::panels}}};

std::string name_of(const Overlap& overlap) {
  std::string name;
  for (const Switch& s : kSwitches) {
    if (overlap.*s.on) name += concat(name.empty() ? "" : ", ", s.name);
  }
  return concat(name.empty() ? "none" : name, " (window ", overlap.window, ", keep ", overlap.keep,
                ", segment ", overlap.segment, ")");
}

/// Sizes at which the small model of this test has several windows and segments.
Overlap none() {
  Overlap overlap = Overlap::none();
  overlap.window = 6000;
  overlap.keep = 40000;
  overlap.segment = 12000;
  return overlap;
}

/// Off, on, each alone, and eight by chance.
std::vector<Overlap> combinations() {
  std::vector<Overlap> all = {none()};
  Overlap on = none();
  for (const Switch& s : kSwitches) on.*s.on = true;
  all.push_back(on);
  for (const Switch& s : kSwitches) {
    Overlap one = none();
    one.*s.on = true;
    all.push_back(one);
  }
  std::mt19937 random(5);
  for (int i = 0; i < 8; ++i) {
    Overlap some = none();
    for (const Switch& s : kSwitches) some.*s.on = random() % 2 == 0;
    some.window = std::array{1, 3000, 20000, 1 << 20}[random() % 4];
    some.keep = std::array{0, 10000, 1 << 20, 60000}[random() % 4];
    some.segment = std::array{1, 5000, 30000, 1 << 20}[random() % 4];
    all.push_back(some);
  }
  return all;
}

Recipe recipe_of(bool tied = true) {
  return small_recipe(tied, kSteps);
}

class OverlapOnGridsOf8 : public testing::TestWithParam<grid::Sizes> {};

TEST_P(OverlapOnGridsOf8, FollowsOneRank) {
  static const std::vector<StepResult> kTied = train_alone(recipe_of(true));
  static const std::vector<StepResult> kUntied = train_alone(recipe_of(false));
  const grid::Grid grid(GetParam());
  // The settings of the model take turns, too.
  int turn = 0;
  for (const Overlap& overlap : combinations()) {
    Recipe recipe = recipe_of(turn % 2 == 0);
    recipe.overlap = overlap;
    recipe.model.execution.checkpoint = turn / 2 % 2 == 1;
    recipe.model.execution.activations =
        turn / 4 % 2 == 0 ? Activations::kSharded : Activations::kReplicated;
    ++turn;
    on_threads(8, [&](comm::World& world) {
      const double worst =
          difference(train_on(world, grid, recipe), recipe.model.tied ? kTied : kUntied);
      expect_on_all_ranks(world, worst <= 1e-10, concat(grid, ", ", name_of(overlap), ": ", worst));
    });
  }
}

std::string grid_name(const testing::TestParamInfo<grid::Sizes>& info) {
  const grid::Sizes& s = info.param;
  return concat("x", s.x, "y", s.y, "z", s.z, "data", s.data);
}

INSTANTIATE_TEST_SUITE_P(Gpt, OverlapOnGridsOf8,
                         testing::ValuesIn(grid::factorisations(8, {Axis::kX, Axis::kY, Axis::kZ,
                                                                    Axis::kData})),
                         grid_name);

Overlap everything() {
  return combinations()[1];
}

void expect_to_follow(const grid::Grid& grid, const Recipe& recipe,
                      const std::vector<StepResult>& alone) {
  on_threads(grid.ranks(), [&](comm::World& world) {
    const double worst = difference(train_on(world, grid, recipe), alone);
    expect_on_all_ranks(world, worst <= 1e-10, concat(grid, ": ", worst));
  });
}

TEST(Overlap, EverythingOnWithEverySettingOfTheModel) {
  for (const bool tied : {false, true}) {
    const std::vector<StepResult> alone = train_alone(recipe_of(tied));
    for (const bool checkpoint : {false, true}) {
      for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
        Recipe recipe = recipe_of(tied);
        recipe.overlap = everything();
        recipe.model.execution.checkpoint = checkpoint;
        recipe.model.execution.activations = activations;
        for (const grid::Sizes& sizes :
             {grid::Sizes{.x = 2, .y = 2, .z = 2}, grid::Sizes{.y = 2, .z = 2, .data = 2}}) {
          expect_to_follow(grid::Grid(sizes), recipe, alone);
        }
      }
    }
  }
}

/// Three samples a rank: one half has one more.
TEST(Overlap, HalvesOfAnOddNumberOfSamples) {
  Recipe recipe = recipe_of();
  recipe.batch = 12;
  recipe.micro_batch = 6;
  const std::vector<StepResult> alone = train_alone(recipe);
  recipe.overlap = everything();
  for (const grid::Sizes& sizes : {grid::Sizes{.x = 2, .z = 2}, grid::Sizes{.y = 2, .data = 2}}) {
    expect_to_follow(grid::Grid(sizes), recipe, alone);
  }
}

TEST(Overlap, HalvesWithAttentionSplitBySamples) {
  Recipe recipe = recipe_of();
  recipe.model.heads = 2;  // not a multiple of x times y
  const std::vector<StepResult> alone = train_alone(recipe);
  recipe.overlap = everything();
  for (const grid::Sizes& sizes : {grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.x = 4}}) {
    expect_to_follow(grid::Grid(sizes), recipe, alone);
  }
}

/// The order of all sums is the same unless the batch goes in halves.
TEST(Overlap, IsBitEqualWithoutHalves) {
  for (const grid::Sizes& sizes : {grid::Sizes{.x = 2, .z = 2}, grid::Sizes{.y = 2, .data = 2},
                                   grid::Sizes{.z = 2, .data = 2}, grid::Sizes{.data = 4}}) {
    std::vector<StepResult> expected;
    for (Overlap overlap : combinations()) {
      overlap.halves = false;
      overlap.segment = none().segment;  // it decides which rank sums what
      Recipe recipe = recipe_of();
      recipe.overlap = overlap;
      std::vector<StepResult> results;
      on_threads(4, [&](comm::World& world) {
        const auto own = train_on(world, grid::Grid(sizes), recipe);
        if (world.rank() == 0) results = own;
      });
      if (expected.empty()) expected = results;
      for (std::size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(results[i].loss, expected[i].loss) << name_of(overlap);
        EXPECT_EQ(results[i].grad_norm, expected[i].grad_norm) << name_of(overlap);
      }
    }
  }
}

}  // namespace
}  // namespace fourfold::test
