// Every strategy by its name, from a configuration: it follows one rank, and every rank of a
// balanced one holds the same.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/train/bench.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/setup.hpp"

#include "tests/support/ranks.hpp"
#include "tests/train/closed_forms.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using config::Config;
using tensor::MemoryClass;
using Recipe = GptRecipe;
using train::recipe_of;

constexpr std::int64_t kSteps = 10;

/// Sizes for 4, 8, 9, 16, 27 and 64 ranks; the vocabulary divides by none of them.
Config config_of(std::int64_t batch, std::int64_t width, std::int64_t heads) {
  Config config;
  config.model.vocab = 37;
  config.model.width = width;
  config.model.heads = heads;
  config.model.layers = 5;
  config.model.context = 8;
  config.model.dropout = 0.1;
  config.train.batch = batch;
  config.train.micro_batch = batch;
  config.train.steps = kSteps;
  config.train.precision = config::Precision::kFloat64;
  config.optim.lr = 1e-2;
  config.optim.min_lr = 1e-3;
  config.optim.warmup = 3;
  return config;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const config::Strategy& strategy : config::strategies()) names.emplace_back(strategy.name);
  return names;
}

/// A strategy on a grid of its own.
struct Named {
  std::string name;
  Config config;
};

/// Those that have a grid of so many ranks.
std::vector<Named> settled(int ranks, const Config& config, const std::vector<std::string>& names) {
  std::vector<Named> all;
  for (const std::string& name : names) {
    try {
      all.push_back({name, train::with_strategy(config, name, ranks)});
      EXPECT_EQ(grid::Grid(all.back().config.parallel.sizes).ranks(), ranks) << name;
    } catch (const ConfigError&) {
    }
  }
  return all;
}

/// With sizes that are named: two squares of four ranks.
Named summa2d_with_data(Config config) {
  config.parallel.strategy = "summa2d";
  config.parallel.sizes = {.x = 2, .y = 2, .data = 2};
  config.parallel.given = true;
  config::Draft draft{.config = config, .file = {}, .places = {}};
  config::resolve_strategy(draft);
  return {"summa2d", draft.config};
}

/// Returns how many there were.
std::size_t follow(const Config& config, const std::vector<Named>& strategies) {
  const std::vector<train::StepResult> alone = train_alone(recipe_of(config));
  for (const Named& one : strategies) {
    const grid::Grid grid(one.config.parallel.sizes);
    on_threads(grid.ranks(), [&](comm::World& world) {
      const double worst = difference(train_on(world, grid, recipe_of(one.config)), alone);
      expect_on_all_ranks(world, worst <= 1e-10, concat(one.name, " on ", grid, ": ", worst));
    });
  }
  return strategies.size();
}
std::size_t follow(int ranks, const Config& config, const std::vector<std::string>& names) {
  return follow(config, settled(ranks, config, names));
}

/// What a plan would find for `auto` in a comparison of strategies.
Config given_to_the_plan(const Config& config) {
  comm::World world = comm::self::open();
  Config seen;
  const train::Choose choose = [&](comm::World&, Config& one,
                                   std::optional<train::Prediction>&) -> std::string {
    seen = one;
    throw ConfigError("seen");
  };
  const train::Bench bench = train::compare(
      world, config, {}, {"auto"}, 1, [](const train::BenchRow&) {}, choose);
  EXPECT_EQ(bench.rows.at(0).refused, "seen");
  return seen;
}

TEST(EveryStrategy, LeavesToThePlanWhatIsNotGiven) {
  Config config = config_of(8, 24, 4);
  config.device.gflops = 1;  // then the rate of products is not measured
  config.train.micro_batch = 2;
  config.train.checkpoint_activations = true;
  config::ParallelConfig& parallel = config.parallel;
  parallel.strategy = "megatron";
  parallel.sizes = {.y = 2};
  parallel.given = true;
  parallel.placement = grid::parse_placement("y,x,z,data,pipe");
  parallel.activations = config::Activations::kReplicated;
  parallel.chunks = 2;
  parallel.zero = 2;
  const Config nothing = given_to_the_plan(config);
  EXPECT_EQ(nothing.parallel.strategy, "auto");
  EXPECT_FALSE(nothing.parallel.given);
  EXPECT_EQ(nothing.parallel.sizes, grid::Sizes());
  EXPECT_FALSE(nothing.parallel.kept.micro_batch);
  EXPECT_EQ(nothing.parallel.activations, config::Activations::kSharded);
  EXPECT_EQ(nothing.parallel.chunks, 1);
  EXPECT_EQ(nothing.parallel.zero, 1);

  parallel.kept = {.placement = true,
                   .activations = true,
                   .checkpoint = true,
                   .micro_batch = true,
                   .chunks = true,
                   .zero = true};
  const Config all = given_to_the_plan(config);
  const config::ParallelConfig::Kept& kept = all.parallel.kept;
  EXPECT_TRUE(kept.placement && kept.activations && kept.checkpoint && kept.micro_batch &&
              kept.chunks && kept.zero);
  EXPECT_EQ(all.parallel.placement, parallel.placement);
  EXPECT_EQ(all.parallel.activations, config::Activations::kReplicated);
  EXPECT_EQ(all.parallel.chunks, 2);
  EXPECT_EQ(all.parallel.zero, 2);
  EXPECT_EQ(all.train.micro_batch, 2);
  EXPECT_TRUE(all.train.checkpoint_activations);
}

TEST(EveryStrategy, FollowsOneRankOn8) {
  // summa2d needs a square, and has 8 ranks only with data.
  const Config config = config_of(16, 24, 8);
  EXPECT_EQ(follow(8, config, all_names()), 9);
  EXPECT_EQ(follow(config, {summa2d_with_data(config)}), 1);
}

TEST(EveryStrategy, FollowsOneRankOn4) {
  // All but 3d.
  EXPECT_EQ(follow(4, config_of(8, 24, 4), all_names()), 9);
}

TEST(EveryStrategy, FollowsOneRankOnSquaresAndCubes) {
  EXPECT_EQ(follow(9, config_of(9, 27, 9), {"summa2d", "summa2.5d", "megatron", "zero3"}), 4);
  EXPECT_EQ(follow(16, config_of(16, 32, 16), {"summa2d", "deepspeed3d"}), 2);
  EXPECT_EQ(follow(27, config_of(27, 27, 9), {"summa2.5d", "3d"}), 2);
}

TEST(EveryStrategy, FollowsOneRankOn64) {
  EXPECT_EQ(follow(64, config_of(64, 32, 16), {"3d", "summa2d", "4d"}), 3);
}

/// The same model as a Llama: four heads share one of keys and values, or more than one rank does.
Config llama_of(Config config) {
  config.model.kind = "llama";
  config.model.dropout = 0;
  config.model.width = 32;
  config.model.kv_heads = 2;
  config.model.hidden = 48;
  config.model.tied = config.train.batch == 8;
  return config;
}

TEST(EveryStrategy, OfALlamaFollowsOneRank) {
  const Config of_eight = llama_of(config_of(16, 32, 8));
  EXPECT_EQ(follow(8, of_eight, all_names()), 9);
  EXPECT_EQ(follow(of_eight, {summa2d_with_data(of_eight)}), 1);
  EXPECT_EQ(follow(4, llama_of(config_of(8, 32, 8)), all_names()), 9);
}

TEST(EveryStrategy, OfALlamaOverlapsAndPipelinesLikeOneRank) {
  Config config = llama_of(config_of(16, 32, 8));
  config.train.micro_batch = 4;
  config.train.steps = 4;
  const std::vector<train::StepResult> alone = train_alone(recipe_of(config));
  for (const bool checkpoint : {false, true}) {
    for (const grid::Sizes& sizes :
         {grid::Sizes{.y = 4, .pipe = 2}, grid::Sizes{.x = 2, .z = 2, .pipe = 2},
          grid::Sizes{.x = 2, .y = 2, .data = 2}}) {
      config.train.checkpoint_activations = checkpoint;
      train::Recipe recipe = recipe_of(config);
      if (checkpoint) recipe.overlap = tensor::Overlap::none();
      const grid::Grid grid(sizes);
      on_threads(grid.ranks(), [&](comm::World& world) {
        const double worst = difference(train_on(world, grid, recipe), alone);
        expect_on_all_ranks(world, worst <= 1e-10, concat(grid, ": ", worst));
      });
    }
  }
}

// --- what they communicate

/// A real step of each; returns how many there were.
std::size_t expect_closed_forms(const std::vector<Named>& strategies) {
  for (const Named& one : strategies) {
    const grid::Grid grid(one.config.parallel.sizes);
    const train::Recipe recipe = recipe_of(one.config);
    on_threads(grid.ranks(), [&](comm::World& world) {
      const CallsBy own = counted(train::record_step(world, grid, recipe, small_samples()).counts);
      const std::string wrong = difference(own, closed_form(grid, recipe, world.rank()));
      expect_on_all_ranks(world, wrong.empty(), concat(one.name, " on ", grid, ":\n", wrong));
    });
  }
  return strategies.size();
}
std::size_t expect_closed_forms(int ranks, const Config& config,
                                const std::vector<std::string>& names) {
  return expect_closed_forms(settled(ranks, config, names));
}

TEST(EveryStrategy, SendsWhatItsClosedFormSays) {
  EXPECT_EQ(expect_closed_forms(8, config_of(16, 24, 8), all_names()), 9);
  EXPECT_EQ(expect_closed_forms({summa2d_with_data(config_of(16, 24, 8))}), 1);
  EXPECT_EQ(expect_closed_forms(4, config_of(8, 24, 4), all_names()), 9);
  EXPECT_EQ(expect_closed_forms(16, config_of(16, 32, 16), all_names()), 9);
  EXPECT_EQ(expect_closed_forms(27, config_of(27, 27, 9), {"summa2.5d", "3d", "zero3"}), 3);
}

TEST(EveryStrategy, SendsWhatItsClosedFormSaysInSeveralPasses) {
  Config config = config_of(32, 24, 8);
  config.train.micro_batch = 8;
  EXPECT_EQ(expect_closed_forms(8, config, all_names()), 9);
  config.train.checkpoint_activations = true;
  config.model.tied = false;
  EXPECT_EQ(expect_closed_forms(8, config, all_names()), 9);
}

/// One head of keys and values for all, or two.
Config llama_of(std::int64_t batch, std::int64_t heads, std::int64_t kv_heads) {
  Config config = llama_of(config_of(batch, 32, heads));
  config.model.kv_heads = kv_heads;
  config.model.width = heads * heads / kv_heads;  // a head can be cut into slices for its sharers
  return config;
}

TEST(EveryStrategy, OfALlamaSendsWhatItsClosedFormSays) {
  for (const std::int64_t kv_heads : {1, 2}) {
    const Config of_eight = llama_of(16, 8, kv_heads);
    EXPECT_EQ(expect_closed_forms(8, of_eight, all_names()), 9);
    EXPECT_EQ(expect_closed_forms({summa2d_with_data(of_eight)}), 1);
    EXPECT_EQ(expect_closed_forms(4, llama_of(8, 8, kv_heads), all_names()), 9);
    EXPECT_EQ(expect_closed_forms(16, llama_of(16, 16, kv_heads), all_names()), 9);
  }
}

TEST(EveryStrategy, OfALlamaSendsWhatItsClosedFormSaysInSeveralPasses) {
  Config config = llama_of(32, 8, 2);
  config.train.micro_batch = 8;
  EXPECT_EQ(expect_closed_forms(8, config, all_names()), 9);
  config.train.checkpoint_activations = true;
  config.model.tied = true;
  EXPECT_EQ(expect_closed_forms(8, config, all_names()), 9);
}

TEST(EveryStrategy, MegatronWithAndWithoutSequenceParallelism) {
  Config config = config_of(8, 24, 8);
  const std::vector<train::StepResult> alone = train_alone(recipe_of(config));
  for (const bool on : {true, false}) {
    config.parallel.strategy = "megatron";
    config.parallel.sizes = {.y = 4, .data = 2};
    config.parallel.sequence_parallel = on;
    config::Draft draft{.config = config, .file = {}, .places = {}};
    config::resolve_strategy(draft);
    on_threads(8, [&](comm::World& world) {
      const auto results =
          train_on(world, grid::Grid(config.parallel.sizes), recipe_of(draft.config));
      expect_on_all_ranks(world, difference(results, alone) <= 1e-10, concat("with ", on));
    });
  }
}

/// Bytes of what waits for the backward pass after a forward pass on this rank.
std::int64_t saved_bytes(comm::World& world, const grid::Grid& grid, const Recipe& recipe) {
  const tensor::MemoryMeter meter;
  const tensor::MemoryMeter::Counting counting(meter);
  const tensor::Mesh mesh(world, grid, recipe.overlap);
  const model::Gpt gpt(mesh, recipe.model, recipe.micro_batch);
  const nn::Batch batch{.samples = recipe.micro_batch, .context = recipe.model.context};
  const auto options = at::TensorOptions(at::kLong).device(mesh.device());
  const at::Tensor tokens = at::zeros({nn::local_samples(mesh, batch), batch.context}, options);
  const Bytes before = meter.now()[MemoryClass::kActivations];
  tensor::InFlight in_flight(mesh);
  nn::Pass pass(in_flight, true);
  const at::Tensor loss = gpt.loss({batch, {tokens, tokens}}, 1, pass);
  const Bytes after = meter.now()[MemoryClass::kActivations];
  loss.backward();
  in_flight.sums().drain();
  return after.value() - before.value();
}

TEST(Balanced, EveryRankOf3dAnd4dHoldsTheSame) {
  Config config = config_of(16, 32, 16);
  config.model.vocab = 64;
  config.model.dropout = 0;
  for (const auto& [sizes, name] : {std::pair{grid::Sizes{.x = 2, .y = 2, .z = 2}, "3d"},
                                    std::pair{grid::Sizes{.x = 2, .z = 2, .data = 2}, "4d"},
                                    std::pair{grid::Sizes{.x = 4, .y = 4, .z = 4}, "3d"}}) {
    const grid::Grid grid(sizes);
    const Recipe recipe = recipe_of(config);
    const train::StepRecord first = train::dry_run(grid, 0, recipe);
    for (int rank = 1; rank < grid.ranks(); ++rank) {
      const train::StepRecord other = train::dry_run(grid, rank, recipe);
      for (const MemoryClass kind : {MemoryClass::kParameters, MemoryClass::kGradients,
                                     MemoryClass::kOptimizer, MemoryClass::kActivations}) {
        EXPECT_EQ(other.peaks[kind], first.peaks[kind])
            << name << " rank " << rank << " " << to_string(kind);
      }
    }
  }
}

TEST(Balanced, ActivationsOf3dAreAShareOfTheSerialOnes) {
  Config config = config_of(16, 64, 16);
  config.model.vocab = 64;
  config.model.dropout = 0;
  const Recipe recipe = recipe_of(config);
  std::int64_t serial = 0;
  {
    comm::World world = comm::self::open();
    serial = saved_bytes(world, grid::Grid(), recipe);
  }
  on_threads(8, [&](comm::World& world) {
    const std::int64_t own = saved_bytes(world, grid::Grid({.x = 2, .y = 2, .z = 2}), recipe);
    // Norms keep two numbers for each row, and the loss two, on all ranks that have a part of it.
    const double ratio = 8 * static_cast<double>(own) / static_cast<double>(serial);
    expect_on_all_ranks(world, ratio >= 1 && ratio <= 1.03,
                        concat("8 times ", own, " of ", serial));
  });
}

}  // namespace
}  // namespace fourfold::test
