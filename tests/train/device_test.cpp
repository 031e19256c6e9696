// Training on a device: ranks as threads, tensors in main memory that count as a device's, and a
// stand-in for CUDA and NCCL whose streams run late by chance. Every grid must follow one rank.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"
#include "fourfold/model/llama.hpp"
#include "fourfold/model/unet.hpp"
#include "fourfold/tensor/collectives.hpp"
#include "fourfold/tensor/transfer.hpp"
#include "fourfold/train/trainer.hpp"

#include "tests/model/unet_reference.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/stand_in.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

using train::Recipe;
using train::StepResult;

constexpr std::int64_t kSteps = 3;

enum class Kind { kGpt, kLlama, kUNet };

model::ModelPtr model_of(Kind kind) {
  if (kind == Kind::kUNet) return std::make_shared<model::UNetModel>(small_unet());
  if (kind == Kind::kLlama) {
    model::LlamaSpec spec;
    spec.vocabulary = 37;
    spec.width = 32;
    spec.heads = 8;
    spec.kv_heads = 4;
    spec.hidden = 40;
    spec.layers = 4;
    spec.context = 8;
    spec.execution.precision = nn::Precision::float64();
    return std::make_shared<model::LlamaModel>(spec);
  }
  model::GptSpec spec = small_recipe(true, kSteps).model;
  spec.layers = 4;
  return std::make_shared<model::GptModel>(spec);
}

/// One way to train.
struct Way {
  Kind kind = Kind::kGpt;
  grid::Sizes sizes;
  optim::Zero zero = optim::Zero::kMoments;
  int chunks = 1;
};

std::string name_of(const Way& way) {
  return concat(std::array{"gpt", "llama", "unet"}[static_cast<std::size_t>(way.kind)], " on ",
                grid::Grid(way.sizes), ", zero ", static_cast<int>(way.zero), ", ", way.chunks,
                " chunks");
}

/// Twelve grids: each axis, pairs of axes, pipelines with and without others, all levels of ZeRO.
std::vector<Way> ways() {
  using optim::Zero;
  return {{Kind::kGpt, {.x = 2, .y = 2}},
          {Kind::kGpt, {.z = 2, .data = 2}, Zero::kGradients},
          {Kind::kGpt, {.x = 2, .y = 2, .z = 2}},
          {Kind::kGpt, {.data = 4}, Zero::kNothing},
          {Kind::kGpt, {.x = 2, .pipe = 2}},
          {Kind::kGpt, {.pipe = 4}},
          {Kind::kGpt, {.data = 2, .pipe = 2}, Zero::kMoments, 2},
          {Kind::kLlama, {.x = 2, .y = 2, .data = 2}},
          {Kind::kLlama, {.y = 2, .z = 2}, Zero::kGradients},
          {Kind::kLlama, {.z = 2, .pipe = 2}},
          {Kind::kUNet, {.x = 2, .y = 2}},
          {Kind::kUNet, {.y = 2, .pipe = 2}, Zero::kMoments, 2}};
}

Recipe recipe_of(const Way& way) {
  Recipe recipe = small_recipe(true, kSteps);
  recipe.model = model_of(way.kind);
  recipe.optimizer.zero = way.zero;
  recipe.chunks = way.chunks;
  recipe.micro_batch = way.sizes.pipe > 1 ? 4 : 8;
  // Sizes at which these models have several windows and segments.
  recipe.overlap.window = 6000;
  recipe.overlap.keep = 40000;
  recipe.overlap.segment = 12000;
  return recipe;
}

void read(std::int64_t sample, std::span<const Tensor> data) {
  if (data.size() == 2) return small_samples()(sample, data);
  data[0].copy_(some_images(small_unet(), sample, 1)[0]);
}

/// `apart`: the device has ended a step when the next one begins. A run does not wait for that.
std::vector<StepResult> train_steps(comm::World& world, const grid::Grid& grid,
                                    const Recipe& recipe, bool apart = false) {
  const tensor::Mesh mesh(world, grid, recipe.overlap);
  train::Trainer trainer(mesh, recipe);
  std::vector<StepResult> results;
  for (std::int64_t i = 1; i <= kSteps; ++i) {
    results.push_back(trainer.step(i, read));
    apart ? world.resolve() : world.report_ended();
  }
  trainer.finish();
  return results;
}

/// The steps of one rank, which each kind of model is trained on once.
const std::vector<StepResult>& alone(const Way& way) {
  static std::map<std::pair<Kind, std::int64_t>, std::vector<StepResult>> known;
  Recipe recipe = recipe_of(way);
  recipe.chunks = 1;
  std::vector<StepResult>& results = known[{way.kind, recipe.micro_batch}];
  if (results.empty()) {
    comm::World world = comm::self::open();
    results = train_steps(world, grid::Grid(), recipe);
  }
  return results;
}

/// Trains over the stand-in with these delays. `resident`: how many operations a device runs at
/// once.
void expect_follows(const Way& way, unsigned seed, int resident) {
  const Recipe recipe = recipe_of(way);
  const std::vector<StepResult>& expected = alone(way);
  const stand_in::Machine machine({.seed = seed, .resident = resident});
  const grid::Grid grid(way.sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    stand_in::use_device(world);
    const tensor::MainMemoryIsDevice on_device;
    const bool apart = seed == 1;
    const double worst = difference(train_steps(world, grid, recipe, apart), expected);
    expect_on_all_ranks(world, worst <= 1e-12,
                        concat(name_of(way), ", seed ", seed, ", ", resident, " at once: ", worst));
  });
  EXPECT_EQ(machine.faults(), std::vector<std::string>()) << name_of(way) << ", seed " << seed;
}

TEST(TrainingOnADevice, FollowsOneRankWhateverTheDelays) {
  for (const Way& way : ways()) {
    for (const unsigned seed : {1U, 2U}) expect_follows(way, seed, 64);
  }
}

TEST(TrainingOnADevice, HangsNowhereWithThreeOperationsAtOnce) {
  for (const Way& way : ways()) expect_follows(way, 4, 3);
}

/// Notes the operations of libtorch, in all threads, whose results the host reads, for which it
/// waits for a device.
class Readers {
 public:
  Readers() {
    names().clear();
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(see).scopes(
        {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  }
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;
  ~Readers() { at::removeCallback(handle_); }

  static std::vector<std::string> found() {
    const std::lock_guard lock(mutex());
    return {names().begin(), names().end()};
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::set<std::string>& names() {
    static std::set<std::string> all;
    return all;
  }
  static std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& function) {
    const std::string name = function.name();
    for (const char* reader : {"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero",
                               "aten::equal", "aten::nonzero", "aten::masked_select"}) {
      const std::lock_guard lock(mutex());
      if (name == reader) names().insert(name);
    }
    return nullptr;
  }

  at::CallbackHandle handle_;
};

TEST(TrainingOnADevice, ReadsFromTheDeviceOnceAStep) {
  for (const Way& way : {ways()[1], ways()[4], ways()[8], ways()[10]}) {
    const Recipe recipe = recipe_of(way);
    const stand_in::Machine machine({.resident = 64});
    const grid::Grid grid(way.sizes);
    const Readers readers;
    on_threads(grid.ranks(), [&](comm::World& world) {
      stand_in::use_device(world);
      const tensor::MainMemoryIsDevice on_device;
      const tensor::Mesh mesh(world, grid, recipe.overlap);
      train::Trainer trainer(mesh, recipe);
      for (std::int64_t i = 1; i <= kSteps; ++i) {
        const std::int64_t before = tensor::host_reads();
        trainer.step(i, read);
        expect_on_all_ranks(world, tensor::host_reads() == before + 1, name_of(way));
      }
      trainer.finish();
    });
    EXPECT_EQ(Readers::found(), std::vector<std::string>()) << name_of(way);
  }
}

}  // namespace
}  // namespace fourfold::test
