// A U-Net with the real program: trained on images, saved, read again, and asked for pictures.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "fourfold/formats/png.hpp"

#include "tests/apps/workspace.hpp"
#include "tests/formats/image_bytes.hpp"

namespace fourfold::test {
namespace {

/// 40 images of 8 x 8 pixels, each with a bright square, and a small network.
class ImageWork : public Workspace {
 public:
  ImageWork() {
    std::string values;
    for (int image = 0; image < 40; ++image) {
      for (int pixel = 0; pixel < 64; ++pixel) {
        const bool inside = pixel / 8 >= image % 4 && pixel / 8 < image % 4 + 4 &&
                            pixel % 8 >= image / 4 % 4 && pixel % 8 < image / 4 % 4 + 4;
        values += static_cast<char>(inside ? 230 : 15);
      }
    }
    write("images", idx_bytes({40, 8, 8}, values));
    write("gpt.toml",
          concat("[model]\nkind = \"unet\"\nimage = 8\ncolours = 1\nchannels = 8\nmultipliers = "
                 "[1, 2]\nblocks = 1\nattention = [4]\nheads = 4\ngroups = 4\nnoise_steps = 30\n",
                 "[data]\nimages = \"", path("images"), "\"\nflip = true\nvalidation = 0.2\n",
                 "[train]\nsteps = 6\nbatch = 8\nprecision = \"float64\"\nvalidate_every = 3\n",
                 "ema = 0.9\ndraw_every = 4\n[optim]\nlr = 1e-2\nmin_lr = 1e-3\nwarmup = 2\n"));
  }

  Outcome sample(const std::string& run, const std::string& out,
                 std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"sample", path(run), "--out", path(out)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return fourfold(arguments);
  }
};

TEST(TrainImages, RefusesToLearnVariancesBeforeAnythingStarts) {
  const ImageWork work;
  const Outcome refused = work.train("refused", {"--set", "model.learn_sigma=true"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(
      refused.err.find("model.learn_sigma = true can be planned and dry-run, but not trained"),
      std::string::npos)
      << refused.err;
  EXPECT_EQ(refused.out, "");
  EXPECT_FALSE(work.has("refused"));
}

TEST(TrainImages, TrainsSavesDrawsAndReads) {
  const ImageWork work;
  const Outcome alone = work.train("alone", {"--report", work.path("page.html")});
  ASSERT_EQ(alone.status, 0) << alone.err;
  for (const char* words : {"32 images of 8 x 8 in grey and 8 for validation; half of those",
                            "6 steps of 8 images: 1.50 epochs of 32 images", "images/s",
                            "validation loss", "samples-000004.png", "samples-000006.png"}) {
    EXPECT_NE(alone.out.find(words), std::string::npos) << words << "\n" << alone.out;
  }
  for (const char* file : {"model.safetensors", "ema.safetensors", "config.json", "config.toml",
                           "samples-000004.png", "samples-000006.png", "samples.png"}) {
    EXPECT_TRUE(work.has(std::string("alone/") + file)) << file;
  }
  EXPECT_FALSE(work.has("alone/generation_config.json"));
  EXPECT_EQ(work.read("alone/samples.png"), work.read("alone/samples-000006.png"));
  const formats::PictureShape shape = formats::read_png_shape(work.path("alone/samples.png"));
  EXPECT_GE(shape.width, 8 * 8);
  EXPECT_EQ(shape.channels, 1);
  const auto json = work.json("alone.json");
  EXPECT_EQ(json["run"]["images_per_step"], 8);
  EXPECT_EQ(json["run"]["train_images"], 32);
  EXPECT_EQ(json["run"]["validation_images"], 8);
  EXPECT_GT(json["summary"]["images_per_second"].get<double>(), 0);
  EXPECT_FALSE(json["summary"].contains("tokens_per_second"));
  EXPECT_NE(work.read("alone/metrics.jsonl").find("\"images_per_second\""), std::string::npos);
  const std::string page = work.read("page.html");
  EXPECT_NE(page.find("What the model draws"), std::string::npos);
  EXPECT_NE(page.find("src=\"data:image/png;base64,iVBORw0KGgo"), std::string::npos);
  EXPECT_NE(page.find("samples-000004.png"), std::string::npos);
}

TEST(TrainImages, EveryGridGivesTheLossesAndPicturesOfOneRank) {
  const ImageWork work;
  ASSERT_EQ(work.train("alone").status, 0);
  for (const std::string grid : {"x=2,y=2", "data=2,z=2", "data=2,pipe=2"}) {
    const Outcome outcome = work.train(grid, {"--grid", grid});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto expected = work.json("alone.json");
    const auto found = work.json(grid + ".json");
    for (std::size_t i = 0; i < 6; ++i) {
      const double loss = expected["steps"][i]["loss"];
      EXPECT_NEAR(found["steps"][i]["loss"], loss, 1e-8 * loss) << grid << ", step " << i + 1;
    }
    const double loss = expected["summary"]["val_loss"];
    EXPECT_NEAR(found["summary"]["val_loss"], loss, 1e-8 * loss) << grid;
    for (const char* picture : {"/samples-000004.png", "/samples.png"}) {
      EXPECT_EQ(formats::read_png(work.path(grid + picture)),
                formats::read_png(work.path(std::string("alone") + picture)))
          << grid;
    }
    ASSERT_EQ(work.sample(grid, grid + ".png", {"--samples", "5", "--steps", "6"}).status, 0);
    ASSERT_EQ(work.sample("alone", "alone.png", {"--samples", "5", "--steps", "6"}).status, 0);
    EXPECT_EQ(formats::read_png(work.path(grid + ".png")),
              formats::read_png(work.path("alone.png")))
        << grid;
  }
}

TEST(TrainImages, LearnsAFolderOfColourPictures) {
  const ImageWork work;
  std::filesystem::create_directory(work.path("pictures"));
  for (int image = 0; image < 12; ++image) {
    formats::Picture picture{{10, 9, 3}, {}};
    for (std::size_t i = 0; i < picture.shape.bytes(); ++i) {
      picture.pixels.push_back(
          static_cast<std::uint8_t>((i * 7 + static_cast<std::size_t>(image) * 31) % 256));
    }
    formats::write_png(work.path(concat("pictures/", image, ".png")), picture);
  }
  const std::vector<std::string> more = {
      "--set", "model.colours=3", "--set", concat("data.images=", work.path("pictures")),
      "--set", "train.steps=2",   "--set", "train.batch=4"};
  std::vector<std::string> on_grid = more;
  on_grid.insert(on_grid.end(), {"--grid", "x=2,y=2"});
  const Outcome alone = work.train("alone", more);
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_NE(alone.out.find("of 8 x 8 in RGB"), std::string::npos) << alone.out;
  const Outcome four = work.train("four", on_grid);
  ASSERT_EQ(four.status, 0) << four.err;
  ASSERT_EQ(work.sample("four", "four.png", {"--samples", "3", "--steps", "4"}).status, 0);
  ASSERT_EQ(work.sample("alone", "alone.png", {"--samples", "3", "--steps", "4"}).status, 0);
  for (const char* picture : {"samples.png", "../four.png"}) {
    EXPECT_EQ(formats::read_png_shape(work.path(concat("four/", picture))).channels, 3) << picture;
  }
  EXPECT_EQ(formats::read_png(work.path("four.png")), formats::read_png(work.path("alone.png")));
}

TEST(BenchImages, PutsAllStrategiesInOneTable) {
  const ImageWork work;
  const std::string some = "ddp,zero3,megatron,4d,deepspeed3d,summa2d";
  for (const std::vector<std::string>& ranks :
       {std::vector<std::string>{"--threads", "8"}, {"--ranks", "2", "--strategies", some}}) {
    std::vector<std::string> words = {"bench", work.config(), "--steps",
                                      "2",     "--json",      work.path("b.json")};
    words.insert(words.end(), ranks.begin(), ranks.end());
    const Outcome outcome = Workspace::fourfold(words);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("images of 8 x 8"), std::string::npos) << outcome.out;
    double loss = 0;
    std::set<std::string> ran;
    const auto results = work.json("b.json");
    for (const auto& one : results["strategies"]) {
      const std::string name = one["strategy"];
      if (one.contains("refused")) {
        const std::string why = one["refused"];
        EXPECT_NE(outcome.out.find("\n" + name + ": " + why), std::string::npos) << name;
        if (name.starts_with("summa")) {
          EXPECT_NE(why.find("a U-Net convolves images"), std::string::npos) << why;
        }
        continue;
      }
      ran.insert(name);
      if (loss == 0) loss = one["loss"];
      EXPECT_LT(std::abs(one["loss"].get<double>() / loss - 1), 1e-10) << name;
      EXPECT_GT(one["bytes"]["max"], 0) << name;
    }
    std::set<std::string> expected = {"ddp", "zero3", "megatron", "4d", "deepspeed3d"};
    if (ranks[0] == "--threads") expected.insert({"zero1", "zero2", "3d"});
    EXPECT_EQ(ran, expected) << outcome.out;
  }
}

TEST(SampleImages, DrawsOnAnyNumberOfRanksFromTheMeanOfTheWeights) {
  const ImageWork work;
  ASSERT_EQ(work.train("run").status, 0);
  const Outcome one =
      work.sample("run", "one.png", {"--samples", "7", "--steps", "5", "--json", work.path("j")});
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_NE(one.out.find("7 images in 5 steps of DDIM from ema.safetensors in "), std::string::npos)
      << one.out;
  EXPECT_EQ(work.json("j")["weights"], "ema.safetensors");
  ASSERT_EQ(
      work.sample("run", "two.png", {"--samples", "7", "--steps", "5", "--ranks", "2"}).status, 0);
  EXPECT_EQ(work.read("two.png"), work.read("one.png"));
  ASSERT_EQ(
      work.sample("run", "other.png", {"--samples", "7", "--steps", "5", "--seed", "2"}).status, 0);
  EXPECT_NE(work.read("other.png"), work.read("one.png"));
  ASSERT_EQ(work.sample("run", "ddpm.png", {"--samples", "7", "--steps", "5", "--sampler", "ddpm"})
                .status,
            0);
  EXPECT_NE(work.read("ddpm.png"), work.read("one.png"));
  std::filesystem::remove(work.path("run/ema.safetensors"));
  const Outcome raw = work.sample("run", "raw.png", {"--samples", "7", "--steps", "5"});
  EXPECT_NE(raw.out.find(" from model.safetensors in "), std::string::npos) << raw.out;
  EXPECT_NE(work.read("raw.png"), work.read("one.png"));
}

TEST(SampleImages, RefusesWhatDoesNotGoTogether) {
  const ImageWork work;
  ASSERT_EQ(work.train("run").status, 0);
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& words) {
    const Outcome outcome = Workspace::fourfold(arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  const std::string run = work.path("run");
  const std::string out = work.path("a.png");
  refused({"sample", run}, "draws images: name a file for them, as in --out grid.png");
  refused({"sample", run, "--out", out, "--prompt", "a"},
          "--prompt does not go with the model in " + run + ", which draws images");
  refused({"sample", run, "--out", out, "--top-k", "3"}, "--top-k does not go with");
  refused({"sample", run, "--out", out, "--steps", "31"}, "in 1 to 30 steps, not 31");
  refused({"sample", run, "--out", out, "--steps", "0"}, "in 1 to 30 steps, not 0");
  refused({"sample", run, "--out", out, "--samples", "0"}, "--samples must be at least 1");
  for (const char* many : {"10000000", "9223372036854775807"}) {
    refused({"sample", run, "--out", out, "--samples", many}, "draw fewer at a time");
  }
  refused({"sample", run, "--out", out, "--sampler", "euler"},
          "--sampler euler must be ddim or ddpm");
  refused({"sample", run, "--out", "/no/such/folder/a.png"}, "--out");
  const Workspace text;
  ASSERT_EQ(text.train("run").status, 0);
  refused({"sample", text.path("run"), "--out", out},
          "--out does not go with the model in " + text.path("run") + ", which writes text");
  refused({"sample", text.path("run"), "--sampler", "ddim"}, "--sampler does not go with");
  EXPECT_FALSE(work.has("a.png"));
}

TEST(TrainImages, StartsFromWeightsOfTheSameModelOnly) {
  const ImageWork work;
  ASSERT_EQ(work.train("first").status, 0);
  const std::vector<std::string> from = {"--init-from", work.path("first")};
  const Outcome more = work.train("more", from);
  EXPECT_EQ(more.status, 0) << more.err;
  EXPECT_LT(work.json("more.json")["steps"][0]["loss"],
            work.json("first.json")["steps"][0]["loss"]);
  const auto refused = [&](const std::string& setting, const std::string& words) {
    const Outcome outcome =
        work.train("refused", {"--init-from", work.path("first"), "--set", setting});
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  refused("model.channels=16", "channels = 8, not 16");
  refused("model.heads=2", "heads = 4, not 2");
  refused("model.multipliers=[1, 1]", "multipliers = [1, 2], not [1, 1]");
}

TEST(TrainImages, RefusesMissingAndOtherData) {
  const ImageWork work;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& words) {
    const Outcome outcome = work.train("refused", more);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  refused({"--set", "data.images=" + work.path("none")}, "none does not exist");
  refused({"--set", "data.text=" + work.path("text.txt")},
          "data.text is no key of model.kind = \"unet\", whose data is data.images");
  refused({"--set", "model.image=16"}, "8");
  EXPECT_FALSE(work.has("refused"));
}

}  // namespace
}  // namespace fourfold::test
