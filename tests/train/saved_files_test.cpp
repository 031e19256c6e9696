// The files of checkpoints: damage is found; a disk that fails costs nothing but the checkpoint;
// old ones are removed. And replicas that differ. SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"
#include "fourfold/formats/checksum.hpp"
#include "fourfold/train/replicas.hpp"

#include "tests/formats/scratch_folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/saved_training.hpp"

namespace fourfold::test {
namespace {

namespace fs = std::filesystem;
using optim::StateOf;
using optim::Zero;
using train::Recipe;

class SavedFiles : public ScratchFolder {};

TEST_F(SavedFiles, FindsEveryFlippedBitAndTakesTheOneBefore) {
  comm::World world = comm::self::open();
  Session session(world, Kind::kGpt, {});
  session.train(1, 1);
  session.save(folder_);
  session.train(2, 2);
  session.save(folder_);
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
TEST_F(SavedFiles, IsNotTakenForNoneWhereAllAreDamaged) {
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
TEST_F(SavedFiles, KeepsGoodOnes) {
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

TEST_F(SavedFiles, KeepsTheNewestAndEveryKth) {
  comm::World world = comm::self::open();
  const Recipe recipe = recipe_of(Kind::kGpt, {});
  const tensor::Mesh mesh(world, grid::Grid(), recipe.overlap);
  train::Trainer trainer(mesh, recipe);
  fs::create_directories(path("step-00000009.partial"));
  checkpoint::Saver saver(mesh, {.folder = folder_, .keep = 2, .keep_every = 4});
  EXPECT_FALSE(fs::exists(path("step-00000009.partial"))) << "left by another process";
  for (std::int64_t step = 1; step <= 7; ++step) {
    trainer.step(step, read_any);
    saver.begin({.step = step}, checkpoint::blocks_of(trainer.state(StateOf::kOnce)));
    EXPECT_TRUE(saver.under_way());
    EXPECT_EQ(saver.finish().value().failure, "");
  }
  EXPECT_FALSE(saver.finish().has_value());
  EXPECT_EQ(files(), (std::set<std::string>{"step-00000004", "step-00000006", "step-00000007"}));
}

/// A disk that is full, and a folder that vanishes.
TEST_F(SavedFiles, LeavesTheOldOneWhereTheDiskFails) {
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

TEST_F(SavedFiles, RefusesThatOfAnotherModel) {
  comm::World world = comm::self::open();
  Session(world, Kind::kGpt, {}).save(folder_, 1);
  EXPECT_SAYS(message_of<ConfigError>([&] { Session(world, Kind::kLlama, {}).load(folder_); }),
              "it is of another model");
}

TEST_F(SavedFiles, StagesNoMoreThanAllowed) {
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
      trainer.step(1, read_any);
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
