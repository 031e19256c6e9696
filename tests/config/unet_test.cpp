// The keys of a U-Net, which other kinds of models do not have, and the reverse.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/write.hpp"

#include "tests/config/sources.hpp"

namespace fourfold::test {
namespace {

using config::Config;

class UNetConfig : public ConfigTest {
 protected:
  std::string set_in_gpt(const std::string& override) const { return refusal(kSmall, {override}); }
};

/// A value other than the default for every key of a U-Net, up to the keys that all kinds have.
constexpr const char* kImages = R"([model]
kind = "unet"
heads = 2
dropout = 0.25
image = 28
colours = 1
channels = 48
multipliers = [1, 3, 2]
blocks = 1
attention = [14, 7]
groups = 16
learn_sigma = true
noise = "linear"
noise_steps = 100

[data]
images = "/data/images"
flip = true
validation = 0.125

[train]
steps = 400
batch = 12
micro_batch = 4
precision = "float32"
seed = 1
checkpoint_activations = false
validate_every = 50
validate_batches = 8
log_every = 1
ema = 0.875
compare_every = 100
on_bad_step = "stop"
draw_every = 25

[optim]
)";

TEST_F(UNetConfig, HasEveryKey) {
  const Config config = read(kImages);
  Config expected;
  expected.model.kind = "unet";
  expected.model.heads = 2;
  expected.model.dropout = 0.25;
  expected.model.image = 28;
  expected.model.colours = 1;
  expected.model.channels = 48;
  expected.model.multipliers = {1, 3, 2};
  expected.model.blocks = 1;
  expected.model.attention = {14, 7};
  expected.model.groups = 16;
  expected.model.learn_sigma = true;
  expected.model.noise = config::NoiseSchedule::kLinear;
  expected.model.noise_steps = 100;
  expected.data.images = "/data/images";
  expected.data.flip = true;
  expected.data.validation = 0.125;
  expected.train.steps = 400;
  expected.train.batch = 12;
  expected.train.micro_batch = 4;
  expected.train.ema = 0.875;
  expected.train.draw_every = 25;
  EXPECT_EQ(config, expected);
  const std::string text = config::to_toml(config);
  EXPECT_EQ(text.substr(0, std::string_view(kImages).size()), kImages);
}

TEST_F(UNetConfig, HasDefaultsOfItsOwn) {
  const std::string least = "[model]\nkind = \"unet\"\nimage = 32\nchannels = 64\n";
  const Config config = read(least, {}, "", false);
  EXPECT_EQ(config.model.heads, 4);
  EXPECT_EQ(config.model.colours, 3);
  EXPECT_EQ(config.model.multipliers, (std::vector<std::int64_t>{1, 2, 2, 2}));
  EXPECT_EQ(config.model.attention, (std::vector<std::int64_t>{16, 8}));
  EXPECT_EQ(config.model.groups, 32);
  EXPECT_EQ(config.train.draw_every, 500);
  // Attention at those of the sizes 16 and 8 that the images have.
  const auto attention = [&](const char* image, const char* multipliers) {
    return read(least, {concat("model.image=", image), concat("model.multipliers=", multipliers)},
                "", false)
        .model.attention;
  };
  EXPECT_EQ(attention("64", "[1, 2, 3]"), (std::vector<std::int64_t>{16}));
  EXPECT_EQ(attention("28", "[1, 2, 3]"), (std::vector<std::int64_t>{}));
  EXPECT_EQ(attention("16", "[1, 2]"), (std::vector<std::int64_t>{16, 8}));
  EXPECT_EQ(attention("32", "[1]"), (std::vector<std::int64_t>{}));
}

TEST_F(UNetConfig, RefusesKeysOfOtherKindsAndTheyRefuseIts) {
  EXPECT_EQ(set_in_gpt("model.image=8"), "--set: model.image is no key of model.kind = \"gpt\"");
  EXPECT_EQ(set_in_gpt("train.draw_every=8"),
            "--set: train.draw_every is no key of model.kind = \"gpt\"");
  EXPECT_EQ(set_in_gpt("data.images=/a"),
            "--set: data.images is no key of model.kind = \"gpt\", whose data is data.text or "
            "data.tokens");
  const std::string images = "[model]\nkind = \"unet\"\nimage = 28\nchannels = 64\n";
  const auto of_images = [&](const std::string& text, bool needs_data = false) {
    return refusal(images + text, {}, "", needs_data);
  };
  for (const char* name : {"vocab", "width", "layers", "context", "kv_heads", "hidden"}) {
    EXPECT_EQ(of_images(concat(name, " = 1\n")),
              concat("gpt.toml:5: model.", name, " is no key of model.kind = \"unet\""));
  }
  for (const char* name : {"text", "tokens", "validation_tokens", "tokenizer_from", "cache"}) {
    EXPECT_EQ(of_images(concat("[data]\n", name, " = \"a\"\n")),
              concat("gpt.toml:6: data.", name,
                     " is no key of model.kind = \"unet\", whose data is data.images"));
  }
}

TEST_F(UNetConfig, RefusesNetworksThatCannotBe) {
  const std::string images = "[model]\nkind = \"unet\"\nimage = 28\nchannels = 64\n";
  const auto of_images = [&](const std::string& text, bool needs_data = false) {
    return refusal(images + text, {}, "", needs_data);
  };
  const std::string three = "multipliers = [1, 2, 2]\n";
  EXPECT_EQ(of_images(three, true),
            "gpt.toml: data.images (a file of images in the format IDX, or a folder of PNG files) "
            "must be given");
  EXPECT_EQ(refusal("[model]\nkind = \"unet\"\nchannels = 64\n", {}, "", false),
            "gpt.toml: model.image is missing; it must be a whole number of at least 1");
  EXPECT_EQ(
      of_images(three + "attention = [14, 8]\n"),
      "gpt.toml:6: model.attention = [14, 8] has 8, but the sizes of the images at the levels "
      "are 28, 14, 7");
  EXPECT_EQ(of_images(""),
            "gpt.toml:3: model.image = 28 cannot be halved 3 times, as model.multipliers = [1, 2, "
            "2, 2] (the default) asks for: each of its numbers but the first halves the image");
  EXPECT_EQ(of_images("colours = 2\n"), "gpt.toml:5: model.colours = 2 must be 1 or 3");
  EXPECT_EQ(
      of_images("multipliers = []\n"),
      "gpt.toml:5: model.multipliers = [] must be a list of whole numbers of at least 1, such "
      "as [1, 2, 2, 2]");
  EXPECT_NE(of_images("attention = [0]\n").find("such as [16, 8]"), std::string::npos);
  EXPECT_EQ(of_images("noise = \"pink\"\n"),
            "gpt.toml:5: model.noise = \"pink\" must be \"cosine\" or \"linear\"");
  EXPECT_EQ(of_images("noise_steps = 1\n"),
            "gpt.toml:5: model.noise_steps = 1 must be a whole number of at least 2");
  EXPECT_EQ(set_in_gpt("train.ema=1.0"),
            "--set: train.ema = 1.0 must be a number of at least 0 and below 1");
}

}  // namespace
}  // namespace fourfold::test
