// Checkpoints: what any grid and strategy has saved, any other one goes on from, exactly; damage is
// found; a disk that fails costs nothing but the checkpoint.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <random>

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "fourfold/checkpoint/loader.hpp"
#include "fourfold/checkpoint/saver.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/formats/checksum.hpp"
#include "fourfold/formats/safetensors_header.hpp"
#include "fourfold/model/llama.hpp"
#include "fourfold/model/unet.hpp"
#include "fourfold/train/replicas.hpp"

#include "tests/formats/scratch_folder.hpp"
#include "tests/model/unet_reference.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/small_training.hpp"

namespace fourfold::test {
namespace {

namespace fs = std::filesystem;
using optim::StateOf;
using optim::Zero;
using train::Recipe;
using train::StepResult;

constexpr std::int64_t kSteps = 6;
constexpr std::int64_t kSaved = 3;  // the step of the checkpoint

enum class Kind { kGpt, kLlama, kUNet };

/// How a model is run.
struct Way {
  grid::Sizes sizes;
  Zero zero = Zero::kMoments;
  bool summa = false;
  int chunks = 1;
  nn::Activations activations = nn::Activations::kSharded;
};

std::string shown(const Way& way) {
  return concat(way.sizes, way.summa ? " summa" : "", " zero ", static_cast<int>(way.zero), " ",
                way.chunks, " chunks");
}

model::ModelPtr model_of(Kind kind, const Way& way) {
  const auto set = [&](model::Execution& how) {
    how.precision = nn::Precision::float64();
    how.activations = way.activations;
    if (way.summa) how.product = nn::ProductKind::kSumma;
  };
  if (kind == Kind::kUNet) {
    model::UNetSpec spec = small_unet();
    set(spec.execution);
    return std::make_shared<model::UNetModel>(spec);
  }
  if (kind == Kind::kLlama) {
    model::LlamaSpec spec;
    spec.vocabulary = 37;
    spec.width = 32;
    spec.heads = 8;
    spec.kv_heads = 4;
    spec.hidden = 40;
    spec.layers = 4;
    spec.context = 8;
    set(spec.execution);
    return std::make_shared<model::LlamaModel>(spec);
  }
  model::GptSpec spec = small_recipe(true, kSteps).model;
  spec.layers = 4;
  set(spec.execution);
  return std::make_shared<model::GptModel>(spec);
}

Recipe recipe_of(Kind kind, const Way& way) {
  Recipe recipe = small_recipe(true, kSteps);
  recipe.model = model_of(kind, way);
  recipe.optimizer.zero = way.zero;
  recipe.optimizer.mean_decay = 0.9;
  recipe.chunks = way.chunks;
  recipe.micro_batch = way.chunks > 1 || way.sizes.pipe > 1 ? 4 : 8;
  return recipe;
}

void read(std::int64_t sample, std::span<const Tensor> data) {
  if (data.size() == 2) return small_samples()(sample, data);
  data[0].copy_(some_images(small_unet(), sample, 1)[0]);
}

/// One rank of a training that is saved and goes on.
class Session {
 public:
  Session(comm::World& world, Kind kind, const Way& way)
      : recipe_(recipe_of(kind, way)),
        mesh_(world, grid::Grid(way.sizes), recipe_.overlap),
        trainer_(mesh_, recipe_) {}

  std::vector<StepResult> train(std::int64_t from, std::int64_t to) {
    std::vector<StepResult> results;
    for (std::int64_t i = from; i <= to; ++i) results.push_back(trainer_.step(i, read));
    return results;
  }
  checkpoint::Saved save(const fs::path& folder, std::int64_t step = kSaved) {
    checkpoint::Saver saver(mesh_, {.folder = folder});
    saver.begin({.step = step, .samples = step * recipe_.batch, .train_units = 1, .config = "x"},
                checkpoint::blocks_of(trainer_.state(StateOf::kOnce)));
    return saver.finish().value();
  }
  checkpoint::Loaded load(const fs::path& folder) {
    const auto good =
        checkpoint::newest_good(mesh_.world(), mesh_.everyone(), folder, [](const std::string&) {});
    if (!good) throw Error("there is no good checkpoint");
    const checkpoint::Loaded loaded =
        checkpoint::load_state(*good, checkpoint::blocks_of(trainer_.state(StateOf::kOwn)));
    trainer_.restored();
    return loaded;
  }
  train::Trainer& trainer() { return trainer_; }

 private:
  Recipe recipe_;
  tensor::Mesh mesh_;
  train::Trainer trainer_;
};

void on_ranks(Kind kind, const Way& way, const std::function<void(comm::World&, Session&)>& body) {
  on_threads(grid::Grid(way.sizes).ranks(), [&](comm::World& world) {
    Session session(world, kind, way);
    body(world, session);
  });
}

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

TEST_F(Checkpoint, GoesOnExactlyOnTheSameGridAndCloselyOnOthers) {
  std::vector<StepResult> whole;
  on_ranks(Kind::kGpt, {.sizes = {.y = 2, .data = 2}}, [&](comm::World& world, Session& session) {
    std::vector<StepResult> results = session.train(1, kSaved);
    const checkpoint::Saved saved = session.save(folder_);
    expect_on_all_ranks(world, saved.failure.empty(), saved.failure);
    const std::vector<StepResult> more = session.train(kSaved + 1, kSteps);
    if (world.rank() == 0) whole = more;
  });
  std::vector<Way> others = ways();
  others.push_back({.sizes = {.x = 2, .y = 2, .data = 2}, .summa = true});
  for (const Way& way : others) {
    on_ranks(Kind::kGpt, way, [&](comm::World& world, Session& session) {
      session.load(folder_);
      const double worst = difference(session.train(kSaved + 1, kSteps), whole);
      expect_on_all_ranks(world, worst <= 1e-10, concat(shown(way), ": ", worst));
    });
  }
  on_ranks(Kind::kGpt, {.sizes = {.y = 2, .data = 2}}, [&](comm::World& world, Session& session) {
    session.load(folder_);
    const std::vector<StepResult> again = session.train(kSaved + 1, kSteps);
    for (std::size_t i = 0; i < again.size(); ++i) {
      expect_on_all_ranks(
          world, again[i].loss == whole[i].loss && again[i].grad_norm == whole[i].grad_norm,
          concat("the same bits in step ", kSaved + 1 + i));
    }
  });
}

TEST_F(Checkpoint, GoesOnCloselyWithOtherModels) {
  const Way first{.sizes = {.x = 2, .data = 2}};
  for (const Kind kind : {Kind::kLlama, Kind::kUNet}) {
    const fs::path folder = path(kind == Kind::kLlama ? "llama" : "unet");
    std::vector<StepResult> whole;
    on_ranks(kind, first, [&](comm::World& world, Session& session) {
      session.train(1, kSaved);
      session.save(folder);
      const std::vector<StepResult> more = session.train(kSaved + 1, kSteps);
      if (world.rank() == 0) whole = more;
    });
    for (const Way& way : {Way{.sizes = {.y = 2, .z = 2}}, Way{.sizes = {.data = 2, .pipe = 2}},
                           Way{.sizes = {.data = 2}, .zero = Zero::kGradients}}) {
      on_ranks(kind, way, [&](comm::World& world, Session& session) {
        session.load(folder);
        const double worst = difference(session.train(kSaved + 1, kSteps), whole);
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
      EXPECT_EQ(manifest.samples, kSaved * recipe_of(kind, a).batch) << where;
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
  EXPECT_EQ(newest.step, kSaved);
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
        expect_on_all_ranks(world, loaded.read.value() == needed + headers, "bytes read");
        expect_on_all_ranks(world, needed < state / 4, "a part of the state");
      });
}

TEST_F(Checkpoint, FindsEveryFlippedBitAndTakesTheOneBefore) {
  comm::World world = comm::self::open();
  Session session(world, Kind::kGpt, {});
  session.train(1, 1);
  session.save(folder_, 1);
  session.train(2, 2);
  session.save(folder_, 2);
  const fs::path newest = checkpoint::list(folder_).at(0).path;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(newest)) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 2U);
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    const fs::path& file = files[random() % 4 == 0 ? 0 : 1];
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(random() % fs::file_size(file));
    const auto bit = static_cast<char>(1 << random() % 8);
    const auto flip = [&] {
      stream.seekg(at);
      const auto byte = static_cast<char>(stream.get() ^ bit);
      stream.seekp(at);
      stream.put(byte);
      stream.flush();
    };
    flip();
    std::string said;
    const auto good = checkpoint::newest_good(world, world.communicator(everyone(world)), folder_,
                                              [&](const std::string& line) { said += line; });
    ASSERT_TRUE(good.has_value());
    EXPECT_EQ(good->manifest.step, 1) << file << " at " << at;
    EXPECT_SAYS(said, file.filename().string());
    EXPECT_SAYS(said, "step 2 is damaged");
    flip();
  }
  const auto good = checkpoint::newest_good(world, world.communicator(everyone(world)), folder_,
                                            [](const std::string&) {});
  EXPECT_EQ(good.value().manifest.step, 2) << "all bits are as they were";
}

/// A run that began again would overwrite what may be repaired.
TEST_F(Checkpoint, IsNotTakenForNoneWhereAllAreDamaged) {
  comm::World world = comm::self::open();
  Session session(world, Kind::kGpt, {});
  const auto newest = [&] {
    return checkpoint::newest_good(world, world.communicator(everyone(world)), folder_,
                                   [](const std::string&) {});
  };
  EXPECT_FALSE(newest().has_value()) << "there is none";
  session.save(folder_, 1);
  session.save(folder_, 2);
  fs::resize_file(checkpoint::list(folder_).at(0).path / checkpoint::rank_file(0), 100);
  EXPECT_EQ(newest().value().damaged, std::set<std::int64_t>{2});
  fs::remove(checkpoint::list(folder_).at(1).path / "manifest.json");
  EXPECT_SAYS(message_of<ConfigError>(newest), "2 are damaged or cannot be read");
  EXPECT_EQ(checkpoint::list(folder_).size(), 2U);
}

/// A damaged one stands for no good one that is removed instead.
TEST_F(Checkpoint, KeepsGoodOnes) {
  comm::World world = comm::self::open();
  const Recipe recipe = recipe_of(Kind::kGpt, {});
  const tensor::Mesh mesh(world, grid::Grid(), recipe.overlap);
  train::Trainer trainer(mesh, recipe);
  checkpoint::Saver saver(mesh, {.folder = folder_, .keep = 2, .damaged = {2, 6}});
  const auto save = [&](std::int64_t step) {
    saver.begin({.step = step}, checkpoint::blocks_of(trainer.state(StateOf::kOnce)));
    EXPECT_EQ(saver.finish().value().failure, "");
    saver.finish();  // until the old ones are removed
    return files();
  };
  fs::create_directories(path("step-00000001"));
  fs::create_directories(path("step-00000002"));
  fs::create_directories(path("step-00000006"));
  EXPECT_EQ(save(3), (std::set<std::string>{"step-00000001", "step-00000002", "step-00000003",
                                            "step-00000006"}));
  EXPECT_EQ(save(4), (std::set<std::string>{"step-00000003", "step-00000004", "step-00000006"}));
  EXPECT_EQ(save(6), (std::set<std::string>{"step-00000004", "step-00000006"})) << "good now";
  EXPECT_EQ(save(7), (std::set<std::string>{"step-00000006", "step-00000007"}));
}

TEST_F(Checkpoint, KeepsTheNewestAndEveryKth) {
  comm::World world = comm::self::open();
  const Recipe recipe = recipe_of(Kind::kGpt, {});
  const tensor::Mesh mesh(world, grid::Grid(), recipe.overlap);
  train::Trainer trainer(mesh, recipe);
  fs::create_directories(path("step-00000009.partial"));
  checkpoint::Saver saver(mesh, {.folder = folder_, .keep = 2, .keep_every = 4});
  EXPECT_FALSE(fs::exists(path("step-00000009.partial"))) << "left by another process";
  for (std::int64_t step = 1; step <= 7; ++step) {
    trainer.step(step, read);
    saver.begin({.step = step}, checkpoint::blocks_of(trainer.state(StateOf::kOnce)));
    EXPECT_TRUE(saver.under_way());
    EXPECT_EQ(saver.finish().value().failure, "");
  }
  EXPECT_FALSE(saver.finish().has_value());
  EXPECT_EQ(files(), (std::set<std::string>{"step-00000004", "step-00000006", "step-00000007"}));
}

/// A disk that is full, and a folder that vanishes.
TEST_F(Checkpoint, LeavesTheOldOneWhereTheDiskFails) {
  on_ranks(Kind::kGpt, {.sizes = {.y = 2}}, [&](comm::World& world, Session& session) {
    session.train(1, 1);
    session.save(folder_, 1);
    const auto barrier = [&] { world.communicator(everyone(world)).barrier().wait(); };
    {
      std::optional<SmallDisk> disk;
      if (world.rank() == 0) disk.emplace(4096);
      barrier();
      const checkpoint::Saved saved = session.save(folder_, 2);
      barrier();
      expect_on_all_ranks(
          world, saved.failure.find("cannot be written: File too large") != std::string::npos,
          saved.failure);
    }
    expect_on_all_ranks(world, checkpoint::list(folder_).at(0).step == 1, "the old one stays");
    expect_on_all_ranks(world, checkpoint::list(folder_).size() == 1, "and is the only one");
    barrier();
    if (world.rank() == 0) {
      fs::remove_all(folder_);
      std::ofstream(folder_) << "a file is in the way";
    }
    barrier();
    const checkpoint::Saved saved = session.save(folder_ / "sub", 3);
    expect_on_all_ranks(world, !saved.failure.empty(), "nothing can be saved there");
    session.train(2, 2);  // and training goes on
  });
}

TEST_F(Checkpoint, RefusesThatOfAnotherModel) {
  comm::World world = comm::self::open();
  Session(world, Kind::kGpt, {}).save(folder_);
  EXPECT_SAYS(message_of<ConfigError>([&] { Session(world, Kind::kLlama, {}).load(folder_); }),
              "it is of another model");
}

TEST_F(Checkpoint, StagesNoMoreThanAllowed) {
  comm::World world = comm::self::open();
  Session session(world, Kind::kGpt, {});
  session.train(1, 1);
  const std::vector<checkpoint::StateBlock> blocks =
      checkpoint::blocks_of(session.trainer().state(StateOf::kOnce));
  std::uint64_t sums[2] = {};
  for (const bool small : {false, true}) {
    checkpoint::StateWriter writer(path(small ? "a" : "b"), blocks, Bytes(small ? 1 : 1 << 30));
    writer.wait();
    EXPECT_EQ(writer.failure(), "");
    EXPECT_EQ(writer.size(), static_cast<std::int64_t>(fs::file_size(path(small ? "a" : "b"))));
    sums[small ? 0 : 1] = writer.checksum();
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], formats::checksum_of_file(path("a")));
}

/// A bit that flips on one of the ranks that must have the same weights.
TEST(Replicas, NameTheRankThatDiffers) {
  for (const Way& way : {Way{.sizes = {.data = 4}}, Way{.sizes = {.y = 2, .data = 4}},
                         Way{.sizes = {.data = 2}, .zero = Zero::kNothing}}) {
    on_threads(grid::Grid(way.sizes).ranks(), [&](comm::World& world) {
      const Recipe recipe = recipe_of(Kind::kGpt, way);
      const tensor::Mesh mesh(world, grid::Grid(way.sizes), recipe.overlap);
      train::Trainer trainer(mesh, recipe);
      trainer.step(1, read);
      expect_on_all_ranks(world, train::difference_of_replicas(mesh, trainer.stages()).empty(),
                          "all equal");
      const nn::ParameterPtr victim = trainer.stages().parameters().at(3);
      victim->wait_for_values();
      auto* bytes = static_cast<char*>(victim->value().data_ptr());
      if (world.rank() == 1) bytes[5] = static_cast<char>(bytes[5] ^ 1);
      const std::string found = train::difference_of_replicas(mesh, trainer.stages());
      expect_on_all_ranks(world, found.find(victim->name()) != std::string::npos, found);
      const bool named = found.find("on rank 1 differ") != std::string::npos;
      const bool pair = found.find("on ranks 0,1 differ") != std::string::npos;
      expect_on_all_ranks(world, mesh.size(grid::Axis::kData) == 2 ? pair : named, found);
      if (world.rank() == 1) bytes[5] = static_cast<char>(bytes[5] ^ 1);
      expect_on_all_ranks(world, train::difference_of_replicas(mesh, trainer.stages()).empty(),
                          "mended");
    });
  }
}

}  // namespace
}  // namespace fourfold::test
