// The data of a run: what of a token file is read, by whom and when.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/comm/thread/thread.hpp"
#include "fourfold/data/token_file.hpp"
#include "fourfold/train/shared_dataset.hpp"

namespace fourfold::test {
namespace {

/// A token file with more tokens than are looked at when it is opened. All are 0, and take no room
/// on the disk, but for one that is too large.
class LongFile {
 public:
  static constexpr std::int64_t kTokens = data::kTokensLookedAt + (std::int64_t{1} << 23);
  static constexpr std::uint16_t kTooLarge = 100;

  explicit LongFile(std::int64_t bad) {
    std::vector<std::int32_t> header(256, 0);
    header[0] = data::kMagic16;
    header[1] = 1;
    header[2] = static_cast<std::int32_t>(kTokens);
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(header.data()), data::kTokenHeaderBytes);
    file.seekp(data::kTokenHeaderBytes + 2 * bad);
    file.write(reinterpret_cast<const char*>(&kTooLarge), 2);
    file.close();
    std::filesystem::resize_file(path_, data::kTokenHeaderBytes + 2 * kTokens);
  }
  ~LongFile() { std::filesystem::remove(path_); }
  LongFile(const LongFile&) = delete;
  LongFile& operator=(const LongFile&) = delete;

  config::Config config() const {
    config::Config config;
    config.model.vocab = 100;
    config.model.width = config.model.heads = config.model.layers = 1;
    config.model.context = 16;
    config.data.tokens = path_;
    config.data.validation = 0;
    return config;
  }

 private:
  std::string path_ =
      (std::filesystem::temp_directory_path() / concat("fourfold-long-", getpid(), ".bin"))
          .string();
};

/// In the middle of a piece that is looked at, and of one that is not.
constexpr std::int64_t kSeen = LongFile::kTokens - 20'000;
constexpr std::int64_t kUnseen = 36'000;

template <class Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Dataset, OnlyWhoLooksFindsABadTokenAtOnce) {
  const LongFile file(kSeen);
  config::Config config = file.config();
  const auto open = [&](bool look) {
    return refusal([&] { train::open_dataset(config, {}, look); });
  };
  EXPECT_NE(open(true).find(concat("its token number ", kSeen, " is 100")), std::string::npos)
      << open(true);
  EXPECT_EQ(open(false), "nothing was thrown");
}

TEST(Dataset, TheFirstRankLooksForAll) {
  const LongFile file(kSeen);
  const std::string said = refusal([&] {
    comm::thread::run(2, [&](comm::World& world) {
      config::Config config = file.config();
      train::open_shared_dataset(world, config, [](const auto&) {});
    });
  });
  EXPECT_NE(said.find(" is 100"), std::string::npos) << said;
}

TEST(Dataset, ABadTokenThatNobodySawIsFoundWhenItIsRead) {
  const LongFile file(kUnseen);
  config::Config config = file.config();
  const train::Dataset dataset = train::open_dataset(config, {});
  const train::ReadSample read = train::read_training(dataset);
  const std::vector<at::Tensor> sample = {at::empty({16}, at::kLong), at::empty({16}, at::kLong)};
  const auto read_window = [&](std::int64_t window) {
    // The sample that is this window.
    return refusal([&] { dataset.train->read_in_order(window, sample); });
  };
  EXPECT_EQ(read_window(kUnseen / 16 - 2), "nothing was thrown");
  const std::string said = read_window(kUnseen / 16);
  EXPECT_NE(said.find(concat("does not fit the vocabulary of 100: its token number ", kUnseen,
                             " is 100")),
            std::string::npos)
      << said;
  EXPECT_EQ(refusal([&] { read(0, sample); }), "nothing was thrown");
}

/// 30 images of 2 x 2 pixels in an IDX file, each of one grey: its number.
class SmallImages {
 public:
  static constexpr int kCount = 30;

  SmallImages() {
    std::ofstream file(path_, std::ios::binary);
    const char header[16] = {0, 0, 8, 3, 0, 0, 0, kCount, 0, 0, 0, 2, 0, 0, 0, 2};
    file.write(header, sizeof header);
    for (int i = 0; i < kCount; ++i) {
      for (int k = 0; k < 4; ++k) file.put(static_cast<char>(i));
    }
  }
  ~SmallImages() { std::filesystem::remove(path_); }
  SmallImages(const SmallImages&) = delete;
  SmallImages& operator=(const SmallImages&) = delete;

  config::Config config() const {
    config::Config config;
    config.model.kind = "unet";
    config.model.image = 2;
    config.model.colours = 1;
    config.model.channels = 8;
    config.model.multipliers = {1};
    config.data.images = path_;
    config.data.validation = 0.2;
    config.train.batch = config.train.micro_batch = 4;
    config.train.validate_batches = 5;
    return config;
  }

 private:
  std::string path_ =
      (std::filesystem::temp_directory_path() / concat("fourfold-images-", getpid())).string();
};

int number_of(const at::Tensor& image) {
  return static_cast<int>(std::lround((image.flatten()[0].item<double>() + 1) * 127.5));
}

TEST(Dataset, ReadsImagesInTheOrderOfTheSeed) {
  const SmallImages files;
  config::Config config = files.config();
  const train::Dataset dataset = train::open_dataset(config, {});
  EXPECT_EQ(dataset.train_units, 24);
  EXPECT_EQ(dataset.validation_units, 6);
  EXPECT_EQ(dataset.tokenizer, nullptr);
  EXPECT_NE(dataset.about.find(": 24 images of 2 x 2 in grey and 6 for validation"),
            std::string::npos)
      << dataset.about;
  EXPECT_EQ(train::units_of_step(config), 4);
  EXPECT_EQ(train::unit_of(config.model), "images");
  for (const auto type : {at::kFloat, at::kDouble}) {
    std::set<int> seen;
    const std::vector<at::Tensor> sample = {at::empty({4, 1}, type)};
    for (int i = 0; i < 24; ++i) {
      train::read_training(dataset)(i, sample);
      seen.insert(number_of(sample[0]));
    }
    EXPECT_EQ(seen.size(), 24U);
    EXPECT_EQ(*seen.rbegin(), 23) << "the others are for validation";
    // The last batch of a validation is filled with images from the beginning.
    EXPECT_EQ(train::validation_passes(dataset, config.train), 2);
    for (int i = 0; i < 8; ++i) {
      train::read_validation(dataset)(i, sample);
      EXPECT_EQ(number_of(sample[0]), 24 + i % 6);
    }
  }
}

TEST(Dataset, RanksAgreeOnImages) {
  const SmallImages files;
  comm::thread::run(2, [&](comm::World& world) {
    config::Config config = files.config();
    train::open_shared_dataset(world, config, [](const auto&) {});
  });
  const std::string said = refusal([&] {
    comm::thread::run(2, [&](comm::World& world) {
      config::Config config = files.config();
      if (world.rank() == 1) config.data.validation = 0.1;
      train::open_shared_dataset(world, config, [](const auto&) {});
    });
  });
  EXPECT_NE(said.find("has other data"), std::string::npos) << said;
}

}  // namespace
}  // namespace fourfold::test
