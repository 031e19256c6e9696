// PNG files: every kind is read as bytes of grey or RGB, what is written reads back, and damage has
// a name.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/png.hpp"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/formats/damage.hpp"
#include "tests/formats/image_bytes.hpp"
#include "tests/formats/scratch_folder.hpp"

namespace fourfold::test {
namespace {

using formats::Picture;
using formats::PictureShape;
using formats::read_png;
using formats::read_png_shape;
using formats::write_png;
using Bytes = std::vector<std::uint8_t>;

std::vector<unsigned> random_samples(std::size_t count, unsigned depth, std::mt19937& random) {
  std::vector<unsigned> samples(count);
  for (unsigned& sample : samples) sample = static_cast<unsigned>(random()) % (1U << depth);
  return samples;
}

/// A sample as a byte, rounded.
unsigned as_byte(unsigned sample, unsigned depth) {
  const unsigned most = (1U << depth) - 1;
  return (sample * 255 + most / 2) / most;
}

std::uint8_t on_white(unsigned value, unsigned alpha) {
  return static_cast<std::uint8_t>((value * alpha + 255 * (255 - alpha) + 127) / 255);
}

Picture random_picture(std::int64_t width, std::int64_t height, int channels, unsigned seed) {
  std::mt19937 random(seed);
  Picture picture{{width, height, channels}, {}};
  for (const unsigned sample : random_samples(picture.shape.bytes(), 8, random)) {
    picture.pixels.push_back(static_cast<std::uint8_t>(sample));
  }
  return picture;
}

class Png : public ScratchFolder {
 protected:
  Picture read(const std::string& bytes) const { return read_png(put("file.png", bytes)); }

  std::string refusal(const std::string& bytes) const {
    const auto file = put("bad.png", bytes);
    const std::string text = message_of<ConfigError>([&] { read_png(file); });
    EXPECT_EQ(text.find(file.string()), 0U) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }
};

TEST_F(Png, WhatIsWrittenReadsBack) {
  const std::vector<std::pair<int, int>> sizes = {{1, 1}, {1, 7},   {7, 1},
                                                  {5, 3}, {31, 17}, {640, 1}};
  for (const auto& [width, height] : sizes) {
    for (const int channels : {1, 3}) {
      const Picture picture = random_picture(width, height, channels, 1);
      write_png(path("file.png"), picture);
      EXPECT_EQ(read_png(path("file.png")), picture) << width << " x " << height;
      EXPECT_EQ(read_png_shape(path("file.png")), picture.shape);
    }
  }
  EXPECT_EQ(files(), std::set<std::string>{"file.png"});
}

/// The bytes that a PNG without a palette stands for.
Bytes expected_pixels(const PngFile& file) {
  const unsigned channels = file.channels();
  const bool alpha = channels % 2 == 0;
  Bytes pixels;
  for (std::size_t at = 0; at < file.samples.size(); at += channels) {
    const unsigned opacity = alpha ? as_byte(file.samples[at + channels - 1], file.depth) : 255;
    for (unsigned channel = 0; channel < channels - (alpha ? 1 : 0); ++channel) {
      pixels.push_back(on_white(as_byte(file.samples[at + channel], file.depth), opacity));
    }
  }
  return pixels;
}

TEST_F(Png, ReadsEveryKind) {
  const std::vector<std::pair<unsigned, std::vector<unsigned>>> kinds = {
      {0, {1, 2, 4, 8, 16}}, {2, {8, 16}}, {4, {8, 16}}, {6, {8, 16}}};
  std::mt19937 random(2);
  for (const auto& [colour, depths] : kinds) {
    for (const unsigned depth : depths) {
      for (std::uint32_t trial = 0; trial < 40; ++trial) {
        const bool interlaced = depth < 16 && trial % 2 == 1;
        PngFile file{1 + trial % 7, 1 + trial / 2, depth, colour, interlaced, {}};
        file.samples = random_samples(file.width * file.height * file.channels(), depth, random);
        const Picture picture = read(file.bytes());
        EXPECT_EQ(picture.shape, (PictureShape{file.width, file.height, colour % 4 == 0 ? 1 : 3}));
        ASSERT_EQ(picture.pixels, expected_pixels(file)) << colour << " " << depth;
        EXPECT_EQ(read_png_shape(path("file.png")), picture.shape);
      }
    }
  }
}

TEST_F(Png, ReadsPalettes) {
  std::mt19937 random(3);
  for (const unsigned depth : {1U, 2U, 4U, 8U}) {
    for (const bool transparent : {false, true}) {
      const std::size_t entries = std::size_t{1} << depth;
      const auto colours = random_samples(3 * entries, 8, random);
      // The last entries have no alpha of their own: they are opaque.
      auto alphas = random_samples(transparent ? entries - 1 : 0, 8, random);
      PngFile file{9, 5, depth, 3, depth == 4, random_samples(45, depth, random)};
      file.more_chunks = png_chunk("PLTE", std::string(colours.begin(), colours.end()));
      if (transparent) {
        file.more_chunks += png_chunk("tRNS", std::string(alphas.begin(), alphas.end()));
      }
      alphas.resize(entries, 255);
      Bytes expected;
      for (const unsigned sample : file.samples) {
        for (std::size_t channel = 0; channel < 3; ++channel) {
          expected.push_back(on_white(colours[3 * sample + channel], alphas[sample]));
        }
      }
      EXPECT_EQ(read(file.bytes()), (Picture{{9, 5, 3}, expected})) << depth;
    }
  }
}

TEST_F(Png, OneColourCanBeTransparent) {
  PngFile grey{3, 1, 8, 0, false, {10, 20, 30}};
  grey.more_chunks = png_chunk("tRNS", std::string("\0\x14", 2));
  EXPECT_EQ(read(grey.bytes()).pixels, (Bytes{10, 255, 30}));
  PngFile colour{2, 1, 16, 2, false, {257, 514, 771, 257, 514, 772}};
  colour.more_chunks = png_chunk("tRNS", std::string("\1\1\2\2\3\3", 6));
  EXPECT_EQ(read(colour.bytes()).pixels, (Bytes{255, 255, 255, 1, 2, 3}));
}

TEST_F(Png, RefusesWhatLibpngReadsWrongly) {
  const std::string file = PngFile{1, 1, 16, 0, true, {7}}.bytes();
  EXPECT_SAYS(refusal(file),
              "bad.png has 16 bits and is interlaced, which libpng reads wrongly; save it with 8 "
              "bits or without interlacing");
  EXPECT_THROW(read_png_shape(path("bad.png")), ConfigError);
}

TEST_F(Png, AmountsOfLightBecomeSrgb) {
  PngFile file{2, 1, 8, 0, false, {128, 255}};  // 186 = 255 (128 / 255)^(1 / 2.2)
  file.more_chunks = png_chunk("gAMA", big_endian(100'000));
  EXPECT_EQ(read(file.bytes()).pixels, (Bytes{186, 255}));
  file.more_chunks = png_chunk("gAMA", big_endian(45'455));
  EXPECT_EQ(read(file.bytes()).pixels, (Bytes{128, 255}));
}

TEST_F(Png, MoreAfterTheEndIsIgnored) {
  const PngFile file{1, 1, 8, 0, false, {77}};
  EXPECT_EQ(read(file.bytes() + "other data").pixels, Bytes{77});
}

TEST_F(Png, RefusesWhatIsNoFile) {
  EXPECT_SAYS(message_of<ConfigError>([&] { read_png(path("none")); }), "none cannot be read: No");
  EXPECT_SAYS(message_of<ConfigError>([&] { read_png(folder_); }), "is not a file");
  EXPECT_SAYS(message_of<ConfigError>([&] { read_png_shape(path("none")); }), "cannot be read");
}

TEST_F(Png, RefusesOtherFormats) {
  EXPECT_SAYS(refusal(""), "it is not a PNG file, which begins with a fixed signature");
  EXPECT_SAYS(refusal("\xff\xd8\xff\xe0 JFIF"), "it is not a PNG file");
  EXPECT_SAYS(refusal(std::string(kPngSignature)), "its PNG header is missing or cut short");
  EXPECT_SAYS(refusal(std::string(kPngSignature) + png_chunk("IDAT", "0123456789012")),
              "its PNG header is missing or cut short");
}

TEST_F(Png, RefusesSizesThatCannotBe) {
  const auto of_size = [&](std::uint32_t width, std::uint32_t height) {
    return refusal(std::string(kPngSignature) + PngFile{width, height}.header());
  };
  EXPECT_SAYS(of_size(0, 1), "it has no pixels");
  EXPECT_SAYS(of_size(1, 0), "it has no pixels");
  EXPECT_SAYS(of_size(16385, 1),
              "is too large: 16385 x 1 pixels, at most 16384 on a side and 67108864 in all are "
              "read; scale it down");
  EXPECT_SAYS(of_size(1, 16385), "is too large");
  EXPECT_SAYS(of_size(8192, 8193), "is too large");
  EXPECT_SAYS(of_size(0xFFFFFFFF, 0xFFFFFFFF), "is too large");
  EXPECT_SAYS(message_of<ConfigError>([&] { read_png_shape(path("bad.png")); }), "is too large");
  EXPECT_SAYS(of_size(8192, 8192), "its PNG data is cut short");
  EXPECT_EQ(read_png_shape(path("bad.png")), (PictureShape{8192, 8192, 1}));
}

TEST_F(Png, RefusesDamage) {
  const PngFile good{4, 4, 8, 0, false, std::vector<unsigned>(16, 9)};
  std::string checksum = good.bytes();
  checksum[8 + 8 + 13] = static_cast<char>(checksum[8 + 8 + 13] ^ 1);
  EXPECT_SAYS(refusal(checksum), "its PNG data is damaged: libpng says 'IHDR: CRC error'");
  const auto with_data = [&](const std::string& chunks) {
    return std::string(kPngSignature) + good.header() + chunks + png_chunk("IEND", "");
  };
  EXPECT_SAYS(refusal(with_data("")), "its PNG data is damaged: libpng says ");
  EXPECT_SAYS(refusal(with_data(png_chunk("IDAT", deflated(std::string(19, '\0'), false)))),
              "libpng says 'Not enough image data'");
  EXPECT_SAYS(refusal(with_data(png_chunk("IDAT", "no deflate data"))), "libpng says ");
  const std::string no_palette = PngFile{1, 1, 8, 3, false, {0}}.bytes();
  EXPECT_SAYS(refusal(no_palette), "libpng says ");
  EXPECT_SAYS(refusal(PngFile{1, 1, 4, 2, false, {1, 1, 1}}.bytes()), "libpng says ");
}

TEST_F(Png, EveryTruncationIsRefused) {
  std::mt19937 random(4);
  PngFile file{5, 4, 8, 6, true, random_samples(80, 8, random)};
  file.more_chunks = png_chunk("gAMA", big_endian(45'455));
  const std::string good = file.bytes();
  EXPECT_NO_THROW(read(good));
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_SAYS(refusal(good.substr(0, size)), "cannot be used: it") << size;
  }
}

/// Recomputes the checksum of every chunk that is whole, so that damage gets past them.
std::string with_checksums(std::string bytes) {
  for (std::size_t at = 8; at + 12 <= bytes.size();) {
    std::size_t size = 0;
    for (std::size_t i = at; i < at + 4; ++i) {
      size = size << 8 | static_cast<unsigned char>(bytes[i]);
    }
    if (size > bytes.size() - at - 12) break;
    const std::string chunk = png_chunk(bytes.substr(at + 4, 4), bytes.substr(at + 8, size));
    bytes.replace(at, chunk.size(), chunk);
    at += chunk.size();
  }
  return bytes;
}

TEST_F(Png, DamagedFilesAreRefusedOrWhole) {
  std::mt19937 random(5);
  std::string palette = png_chunk("PLTE", "abcdefghijkl") + png_chunk("tRNS", "xyz");
  std::vector<PngFile> kinds = {
      {6, 5, 2, 3, true, random_samples(30, 2, random), palette},
      {5, 3, 16, 6, false, random_samples(60, 16, random), png_chunk("gAMA", big_endian(60'000))},
      {9, 3, 1, 0, false, random_samples(27, 1, random), png_chunk("tRNS", std::string(2, '\0'))}};
  for (const PngFile& kind : kinds) {
    for (const bool repair : {false, true}) {
      const auto outcomes = damage_often(kind.bytes(), 2000, 6, [&](const std::string& bytes) {
        const auto file = put("file.png", repair ? with_checksums(bytes) : bytes);
        const Picture picture = read_png(file);
        ASSERT_EQ(picture.pixels.size(), picture.shape.bytes());
        EXPECT_EQ(read_png_shape(file), picture.shape);
      });
      EXPECT_GT(outcomes.refused, 500);
      EXPECT_GT(outcomes.accepted, repair ? 100 : 20);
    }
  }
}

TEST_F(Png, FilesThatCannotBeWrittenLeaveNothing) {
  const Picture picture = random_picture(100, 100, 3, 7);
  EXPECT_SAYS(message_of<IoError>([&] { write_png(path("no/file.png"), picture); }),
              "no/file.png cannot be written: No such file or directory");
  put("file.png", "old");
  {
    const SmallDisk full(1000);
    EXPECT_SAYS(message_of<IoError>([&] { write_png(path("file.png"), picture); }),
                "file.png cannot be written: File too large");
  }
  EXPECT_EQ(bytes_of(path("file.png")), "old");
  EXPECT_EQ(files(), std::set<std::string>{"file.png"});
}

TEST_F(Png, OnlyWholePicturesAreWritten) {
  const auto refuse = [&](const Picture& picture) {
    EXPECT_THROW(write_png(path("file.png"), picture), InvariantError);
  };
  refuse({{2, 2, 1}, Bytes(3)});
  refuse({{2, 2, 2}, Bytes(8)});
  refuse({{0, 2, 1}, {}});
  refuse({{-1, -1, 1}, Bytes(1)});
  refuse({{16385, 1, 1}, Bytes(16385)});
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace fourfold::test
