// Checkpoints: what any grid and strategy has saved, any other one goes on from, exactly.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <map>
#include <random>

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"
#include "fourfold/formats/safetensors_header.hpp"

#include "tests/formats/scratch_folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/saved_training.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

namespace fs = std::filesystem;
using at::Tensor;
using optim::StateOf;
using optim::Zero;
using train::StepResult;

constexpr std::int64_t kSaved = 3;  // the step of most checkpoints

/// All tensors of a checkpoint, whole, by name.
std::map<std::string, Tensor> content_of(Kind kind, const fs::path& folder) {
  comm::World world = comm::self::open();
  Session session(world, kind, {});
  session.load(folder);
  std::map<std::string, Tensor> all;
  for (const checkpoint::StateBlock& block :
       checkpoint::blocks_of(session.trainer().state(StateOf::kOwn))) {
    all[block.entry()] = block.data.clone();
  }
  return all;
}

void expect_equal(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b,
                  const std::string& where) {
  ASSERT_EQ(a.size(), b.size()) << where;
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << where << name;
}

class Checkpoint : public ScratchFolder {};

std::vector<Way> ways() {
  return {{},
          {.sizes = {.data = 4}, .zero = Zero::kNothing},
          {.sizes = {.data = 2}, .zero = Zero::kGradients},
          {.sizes = {.x = 2, .y = 2, .z = 2}},
          {.sizes = {.z = 4, .data = 2}},
          {.sizes = {.y = 2, .data = 2, .pipe = 2}},
          {.sizes = {.y = 4, .z = 2}, .activations = nn::Activations::kReplicated},
          {.sizes = {.x = 2, .pipe = 2}, .chunks = 2},
          {.sizes = {.x = 2, .y = 2, .z = 2, .data = 2}}};
}

TEST_F(Checkpoint, GoesOnCloselyOnOtherGrids) {
  std::vector<StepResult> whole;
  on_ranks(Kind::kGpt, {.sizes = {.y = 2, .data = 2}}, [&](comm::World& world, Session& session) {
    std::vector<StepResult> results = session.train(1, kSaved);
    const checkpoint::Saved saved = session.save(folder_);
    expect_on_all_ranks(world, saved.failure.empty(), saved.failure);
    const std::vector<StepResult> more = session.train(kSaved + 1, kTrainedSteps);
    if (world.rank() == 0) whole = more;
  });
  std::vector<Way> others = ways();
  others.push_back({.sizes = {.x = 2, .y = 2, .data = 2}, .summa = true});
  for (const Way& way : others) {
    on_ranks(Kind::kGpt, way, [&](comm::World& world, Session& session) {
      session.load(folder_);
      const double worst = difference(session.train(kSaved + 1, kTrainedSteps), whole);
      expect_on_all_ranks(world, worst <= 1e-10, concat(shown(way), ": ", worst));
    });
  }
}

/// In every precision; in bf16 the values that are computed with are made of the masters again.
TEST_F(Checkpoint, GoesOnWithTheSameBitsOnTheSameGrid) {
  for (const nn::Precision precision :
       {nn::Precision::float64(), nn::Precision::float32(), nn::Precision::bf16()}) {
    const Way way{.sizes = {.y = 2, .data = 2}, .precision = precision};
    const fs::path folder = path(concat("in-", c10::elementSize(precision.compute)));
    std::vector<StepResult> whole;
    on_ranks(Kind::kGpt, way, [&](comm::World& world, Session& session) {
      session.train(1, kSaved);
      session.save(folder);
      const std::vector<StepResult> more = session.train(kSaved + 1, kTrainedSteps);
      if (world.rank() == 0) whole = more;
    });
    on_ranks(Kind::kGpt, way, [&](comm::World& world, Session& session) {
      session.load(folder);
      const std::vector<StepResult> again = session.train(kSaved + 1, kTrainedSteps);
      expect_on_all_ranks(world, again.size() == whole.size(), "as many steps");
      for (std::size_t i = 0; i < again.size(); ++i) {
        expect_on_all_ranks(
            world, again[i].loss == whole[i].loss && again[i].grad_norm == whole[i].grad_norm,
            concat("the same bits in step ", kSaved + 1 + i, " in ",
                   c10::elementSize(precision.compute), " bytes"));
      }
    });
  }
}

TEST_F(Checkpoint, GoesOnCloselyWithOtherModels) {
  const Way first{.sizes = {.x = 2, .data = 2}};
  for (const Kind kind : {Kind::kLlama, Kind::kUNet}) {
    const fs::path folder = path(kind == Kind::kLlama ? "llama" : "unet");
    std::vector<StepResult> whole;
    on_ranks(kind, first, [&](comm::World& world, Session& session) {
      session.train(1, kSaved);
      session.save(folder);
      const std::vector<StepResult> more = session.train(kSaved + 1, kTrainedSteps);
      if (world.rank() == 0) whole = more;
    });
    for (const Way& way : {Way{.sizes = {.y = 2, .z = 2}}, Way{.sizes = {.data = 2, .pipe = 2}},
                           Way{.sizes = {.data = 2}, .zero = Zero::kGradients}}) {
      on_ranks(kind, way, [&](comm::World& world, Session& session) {
        session.load(folder);
        const double worst = difference(session.train(kSaved + 1, kTrainedSteps), whole);
        expect_on_all_ranks(world, worst <= 1e-8, concat(shown(way), ": ", worst));
      });
    }
  }
}

/// Weights, moments and means are the same bits after a way through another grid and strategy.
TEST_F(Checkpoint, IsBitEqualAfterAWayThroughOtherGrids) {
  std::mt19937 random(3);
  for (int i = 0; i < 12; ++i) {
    const Kind kind = std::array{Kind::kGpt, Kind::kLlama, Kind::kUNet}[i % 3];
    std::vector<Way> all = ways();
    if (kind != Kind::kUNet) all.push_back({.sizes = {.x = 2, .y = 2, .data = 2}, .summa = true});
    // Two different ones; every way is the second one at least once.
    const std::size_t first_way = random() % all.size();
    std::size_t second_way = static_cast<std::size_t>(i) % all.size();
    if (second_way == first_way) second_way = (second_way + 1) % all.size();
    const Way a = all[first_way];
    const Way b = all[second_way];
    const std::string where = concat(shown(a), " and ", shown(b), ": ");
    const fs::path first = path(concat("first-", i));
    const fs::path second = path(concat("second-", i));
    const fs::path third = path(concat("third-", i));
    on_ranks(kind, a, [&](comm::World&, Session& session) {
      session.train(1, 2);
      session.save(first);
    });
    on_ranks(kind, b, [&](comm::World&, Session& session) {
      session.load(first);
      session.save(second);
    });
    on_ranks(kind, a, [&](comm::World&, Session& session) {
      session.load(second);
      session.save(third);
    });
    for (const fs::path& one : {first, second, third}) {
      const formats::Manifest manifest = formats::read_manifest(checkpoint::list(one).at(0).path);
      EXPECT_EQ(manifest.step, 2) << where;
      EXPECT_EQ(manifest.samples, 2 * recipe_of(kind, a).batch) << where;
    }
    const auto expected = content_of(kind, first);
    EXPECT_GT(expected.size(), 20U);
    expect_equal(expected, content_of(kind, second), where);
    expect_equal(expected, content_of(kind, third), where);
  }
}

TEST_F(Checkpoint, IsWrittenOnceAndReadAsFarAsNeeded) {
  std::int64_t parameters = 0;
  on_ranks(Kind::kGpt, {.sizes = {.data = 4}, .zero = Zero::kNothing},
           [&](comm::World& world, Session& session) {
             session.train(1, 1);
             session.save(folder_);
             if (world.rank() == 0) {
               parameters = session.trainer().recipe().model->parameter_count();
             }
           });
  const checkpoint::Listed newest = checkpoint::list(folder_).at(0);
  EXPECT_EQ(newest.step, 1);
  const formats::Manifest manifest = formats::read_manifest(newest.path);
  ASSERT_EQ(manifest.files.size(), 4U);
  // Weights, two moments and the mean of the weights, in float64, and headers.
  const std::int64_t state = 4 * 8 * parameters;
  EXPECT_GT(manifest.bytes(), state);
  std::int64_t headers = 0;
  for (const formats::Manifest::File& file : manifest.files) {
    EXPECT_LT(file.bytes, 2 * state / 4) << "replicas share the writing";
    const formats::ReadFile one(newest.path / file.name);
    headers += formats::read_header(one).data_begin;
  }
  EXPECT_EQ(manifest.bytes() - headers, state);
  on_ranks(
      Kind::kGpt, {.sizes = {.x = 2, .y = 2, .z = 2}}, [&](comm::World& world, Session& session) {
        std::int64_t needed = 0;
        for (const auto& block : checkpoint::blocks_of(session.trainer().state(StateOf::kOwn))) {
          needed += static_cast<std::int64_t>(block.data.nbytes());
        }
        const checkpoint::Loaded loaded = session.load(folder_);
        expect_on_all_ranks(world, loaded.needed.value() == needed, "bytes of the blocks");
        expect_on_all_ranks(world, loaded.read.value() == needed + headers,
                            concat(loaded.read.value(), " bytes read, needed are ", needed,
                                   " and headers of ", headers));
        expect_on_all_ranks(world, needed < state / 4, "a part of the state");
      });
}

}  // namespace
}  // namespace fourfold::test
