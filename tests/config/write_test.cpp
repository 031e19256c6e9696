// What is written reads back as the same, and the configurations that come with the program are
// right.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/write.hpp"

#include <cmath>
#include <limits>
#include <random>

#include "tests/config/sources.hpp"

namespace fourfold::test {
namespace {

using config::Config;

class Write : public ConfigTest {
 protected:
  Config again(const Config& config) const { return read(config::to_toml(config), {}, "", false); }
};

TEST_F(Write, DefaultsReadBack) {
  const Config config = read(kSmall);
  EXPECT_EQ(again(config), config);
  EXPECT_FALSE(again(config).parallel.given);
  const std::string text = config::to_toml(config);
  EXPECT_EQ(text.find("tokens"), std::string::npos);
  EXPECT_EQ(text.find("pipe ="), std::string::npos);
  EXPECT_NE(text.find("micro_batch = 8\n"), std::string::npos);
  EXPECT_NE(text.find("validation = 0.05\n"), std::string::npos);
}

TEST_F(Write, ChoicesAndSizesReadBack) {
  Config config = read(kSmall, {}, "x=1");
  EXPECT_TRUE(again(config).parallel.given);
  for (auto precision :
       {config::Precision::kFloat32, config::Precision::kBf16, config::Precision::kFloat64}) {
    config.train.precision = precision;
    EXPECT_EQ(again(config), config);
  }
  config.data.tokenizer = config::Tokenizer::kBytes;
  config.parallel.activations = config::Activations::kReplicated;
  config.parallel.placement = grid::parse_placement("pipe,data,z,y,x");
  config.parallel.sizes = {1, 2, 3, 4, 5};
  EXPECT_EQ(again(config), config);
}

TEST_F(Write, StrangeTextsReadBack) {
  Config config = small();
  std::string controls;
  for (char c = 1; c < 32; ++c) controls += c;
  for (const std::string& text :
       {std::string("say \"hi\""), std::string("C:\\new\\table"), std::string("\"\"\""),
        std::string("a\nb\r\n\tc"), std::string(" # no comment "), std::string("Zoë 文字 🙂"),
        std::string("\xC2\x85\xE2\x80\xA8"), std::string("'single'"), std::string("\x7F"),
        std::string("\\"), std::string("\\u0041"), std::string(2000, 'x'), controls}) {
    config.data.text = "/" + text;
    config.data.cache = "/" + text + text;
    config.train.init_from = "/" + text;
    EXPECT_EQ(again(config), config) << config::to_toml(config);
  }
}

TEST_F(Write, TheLongestPathsReadBack) {
  Config config = small();
  config.data.text = "";
  config.data.tokens = "/" + std::string(4093, 'a');
  config.data.validation_tokens = "/" + std::string(682, '\x01') + "a";
  config.data.cache = "/" + std::string(2046, '"');
  EXPECT_EQ(again(config), config);
}

TEST_F(Write, NumbersReadBackExactly) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-300, 300);
  std::vector<double> numbers = {1.0 / 3,
                                 0.1 + 0.2,
                                 1e22,
                                 123456789.0,
                                 std::numeric_limits<double>::max(),
                                 std::numeric_limits<double>::min(),
                                 std::numeric_limits<double>::denorm_min(),
                                 std::nextafter(1.0, 0.0)};
  for (int i = 0; i < 200; ++i) numbers.push_back(std::pow(10.0, exponent(random)));
  Config config = small();
  for (double number : numbers) {
    config.optim.lr = std::max(number, config.optim.min_lr);
    config.optim.eps = number;
    config.optim.clip = number;
    config.optim.betas = {1 / (1 + number), number < 1 ? number : 0};
    if (config.optim.betas[0] >= 1) config.optim.betas[0] = 0;
    EXPECT_EQ(again(config), config) << config::to_toml(config);
  }
}

/// Of a file in configs/.
Config shipped(const std::string& name, bool needs_data = true) {
  return config::read({std::string(CONFIGS_FOLDER) + "/" + name, {}, "", needs_data});
}

TEST_F(Write, AllShippedFilesAreRightAndReadBack) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CONFIGS_FOLDER)) {
    const Config config = shipped(entry.path().filename(), false);
    EXPECT_EQ(again(config), config) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 3);
}

TEST_F(Write, ShippedFilesSayWhatTheyShould) {
  Config bench;
  bench.model = {.vocab = 8192, .width = 512, .heads = 8, .layers = 6, .context = 256};
  bench.data.text = "/usr/share/games/fortunes";
  bench.train.steps = 20;
  bench.train.micro_batch = 8;
  bench.train.validate_every = 0;
  EXPECT_EQ(shipped("gpt-bench.toml"), bench);

  Config quick;
  quick.model = {
      .vocab = 2048, .width = 128, .heads = 4, .layers = 2, .context = 64, .dropout = 0.0};
  quick.data.text = "/usr/share/games/fortunes";
  quick.train.steps = 900;
  quick.train.batch = quick.train.micro_batch = 16;
  quick.train.validate_every = 300;
  quick.train.log_every = 50;
  quick.optim.lr = 5e-3;
  quick.optim.min_lr = 1e-4;
  quick.optim.warmup = 50;
  quick.parallel.sizes = {.x = 2, .y = 2};
  quick.parallel.given = true;
  quick.parallel.strategy = "4d";
  EXPECT_EQ(shipped("quickstart.toml"), quick);

  Config large;
  large.model = {.vocab = 51200, .width = 12288, .heads = 96, .layers = 42, .context = 2048};
  large.train.batch = large.train.micro_batch = 1024;
  large.train.precision = config::Precision::kBf16;
  large.train.checkpoint_activations = true;
  large.device.memory_gib = 64;
  EXPECT_EQ(shipped("gpt-80b.toml", false), large);
  EXPECT_THROW(shipped("gpt-80b.toml"), ConfigError);
}

}  // namespace
}  // namespace fourfold::test
