// Scaling, cutting and colours of images, and the sheet of many of them.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/fit_image.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/data/contact_sheet.hpp"

namespace fourfold::test {
namespace {

using data::contact_sheet;
using data::fit_image;
using formats::Picture;
using formats::PictureShape;
using Floats = std::vector<float>;

Picture random_picture(std::int64_t width, std::int64_t height, int channels, unsigned seed) {
  std::mt19937 random(seed);
  Picture picture{{width, height, channels}, {}};
  for (std::size_t i = 0; i < picture.shape.bytes(); ++i) {
    picture.pixels.push_back(static_cast<std::uint8_t>(random()));
  }
  return picture;
}

Floats fitted(const Picture& picture, std::int64_t size, int channels, bool flip = false) {
  Floats out(static_cast<std::size_t>(size * size * channels), 99.0F);
  fit_image(picture.shape, picture.pixels.data(), size, channels, flip, out.data());
  return out;
}

/// A channel of the wanted image at a pixel of the picture, between 0 and 255.
double value_at(const Picture& picture, std::int64_t row, std::int64_t column, int channels,
                int channel) {
  const std::int64_t have = picture.shape.channels;
  const std::uint8_t* pixel = picture.pixels.data() + (row * picture.shape.width + column) * have;
  if (have == channels) return pixel[channel];
  return have == 1 ? pixel[0] : 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
}

/// The slow way: each pixel of the picture becomes size x size, and of these side x side are
/// averaged.
Floats reference(const Picture& picture, std::int64_t size, int channels, bool flip) {
  const std::int64_t side = std::min(picture.shape.width, picture.shape.height);
  const std::int64_t top = (picture.shape.height - side) / 2;
  const std::int64_t left = (picture.shape.width - side) / 2;
  Floats out;
  for (std::int64_t row = 0; row < size; ++row) {
    for (std::int64_t place = 0; place < size; ++place) {
      const std::int64_t column = flip ? size - 1 - place : place;
      for (int channel = 0; channel < channels; ++channel) {
        double sum = 0;
        for (std::int64_t y = row * side; y < (row + 1) * side; ++y) {
          for (std::int64_t x = column * side; x < (column + 1) * side; ++x) {
            sum += value_at(picture, top + y / size, left + x / size, channels, channel);
          }
        }
        const auto average = sum / static_cast<double>(side * side);
        out.push_back(static_cast<float>(average / 127.5 - 1));
      }
    }
  }
  return out;
}

void expect_near(const Floats& values, const Floats& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 1e-6) << i;
}

TEST(FitImage, BytesBecomeNumbersBetweenMinusOneAndOne) {
  Picture all{{16, 16, 1}, {}};
  for (int byte = 0; byte < 256; ++byte) all.pixels.push_back(static_cast<std::uint8_t>(byte));
  const Floats values = fitted(all, 16, 1);
  EXPECT_EQ(values.front(), -1.0F);
  EXPECT_EQ(values.back(), 1.0F);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    EXPECT_NEAR(values[byte], static_cast<double>(byte) / 127.5 - 1, 1e-7);
    EXPECT_EQ(values[byte], -values[255 - byte]);
  }
}

TEST(FitImage, ScalesLikeTheSlowReference) {
  unsigned seed = 0;
  for (const std::int64_t width : {1, 2, 3, 5, 8, 13, 24}) {
    for (const std::int64_t height : {1, 2, 4, 7, 13, 17}) {
      for (const int have : {1, 3}) {
        const Picture picture = random_picture(width, height, have, ++seed);
        for (std::int64_t size = 1; size <= std::min(width, height); ++size) {
          for (const int channels : {1, 3}) {
            const bool flip = (seed + static_cast<unsigned>(size)) % 2 == 0;
            expect_near(fitted(picture, size, channels, flip),
                        reference(picture, size, channels, flip));
          }
        }
      }
    }
  }
}

TEST(FitImage, TheOrderIsRowsColumnsChannels) {
  const Picture picture{{2, 2, 3}, {0, 51, 102, 153, 204, 255, 255, 0, 0, 0, 255, 0}};
  expect_near(fitted(picture, 2, 3), {-1, -0.6F, -0.2F, 0.2F, 0.6F, 1, 1, -1, -1, -1, 1, -1});
  expect_near(fitted(picture, 2, 3, true), {0.2F, 0.6F, 1, -1, -0.6F, -0.2F, -1, 1, -1, 1, -1, -1});
}

TEST(FitImage, TheMiddleOfTheLongerSideIsKept) {
  const Picture wide{{5, 1, 1}, {0, 0, 255, 0, 0}};
  EXPECT_EQ(fitted(wide, 1, 1), Floats{1});
  const Picture tall{{2, 6, 1}, {0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0}};
  EXPECT_EQ(fitted(tall, 2, 1), (Floats{1, 1, 1, 1}));
  // Of an odd rest the larger part is cut at the end.
  const Picture odd{{4, 1, 1}, {0, 255, 0, 0}};
  EXPECT_EQ(fitted(odd, 1, 1), Floats{1});
}

TEST(FitImage, ColoursBecomeLumaAndGreyBecomesColour) {
  const Picture primary{{3, 3, 3}, {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 0, 0,
                                    0,   9, 9, 9, 0,   0, 0, 0, 0,   0,   0,   0,   0}};
  const Floats luma = fitted(primary, 3, 1);
  EXPECT_NEAR(luma[0], 2 * 0.299 - 1, 1e-6);
  EXPECT_NEAR(luma[1], 2 * 0.587 - 1, 1e-6);
  EXPECT_NEAR(luma[2], 2 * 0.114 - 1, 1e-6);
  EXPECT_EQ(luma[3], 1.0F);
  EXPECT_EQ(luma[5], static_cast<float>(9 / 127.5 - 1));
  const Picture grey{{1, 1, 1}, {51}};
  const Floats colour = fitted(grey, 1, 3);
  EXPECT_EQ(colour, Floats(3, colour[0]));
}

TEST(FitImage, WhatIsEvenStaysExactlySo) {
  for (const int byte : {0, 1, 127, 128, 200, 255}) {
    const Picture even{{37, 23, 3},
                       std::vector<std::uint8_t>(37 * 23 * 3, static_cast<std::uint8_t>(byte))};
    const auto expected = static_cast<float>(byte / 127.5 - 1);
    for (const std::int64_t size : {1, 7, 22, 23}) {
      for (const float value : fitted(even, size, 1)) ASSERT_EQ(value, expected);
      for (const float value : fitted(even, size, 3)) ASSERT_EQ(value, expected);
    }
  }
}

TEST(FitImage, TheLargestPicturesDoNotOverflow) {
  const std::int64_t side = 8192;
  const Picture white{{side, side, 1},
                      std::vector<std::uint8_t>(static_cast<std::size_t>(side * side), 255)};
  EXPECT_EQ(fitted(white, 1, 1), Floats{1});
  EXPECT_EQ(fitted(white, 3, 1), Floats(9, 1.0F));
}

TEST(FitImage, RefusesToEnlarge) {
  const Picture small = random_picture(4, 3, 1, 1);
  EXPECT_THROW(fitted(small, 4, 1), InvariantError);
  EXPECT_THROW(fitted(small, 0, 1), InvariantError);
}

TEST(ContactSheet, PutsImagesSideBySide) {
  const Floats images = {-1, -0.6F, -0.2F, 0.2F, 1, 1, 1, 1, -1, -1, -1, -1};
  const Picture sheet = contact_sheet(images, 2, 1, 2);
  const std::uint8_t w = 255;  // between the images, and where there is none
  EXPECT_EQ(sheet.shape, (PictureShape{6, 6, 1}));
  EXPECT_EQ(sheet.pixels, (std::vector<std::uint8_t>{0,   51,  w, w, 255, 255,  //
                                                     102, 153, w, w, 255, 255,  //
                                                     w,   w,   w, w, w,   w,    //
                                                     w,   w,   w, w, w,   w,    //
                                                     0,   0,   w, w, w,   w,    //
                                                     0,   0,   w, w, w,   w}));
  EXPECT_EQ(contact_sheet(images, 2, 1, 7).shape, (PictureShape{10, 2, 1}));
  EXPECT_EQ(contact_sheet(images, 2, 1, 1).shape, (PictureShape{2, 10, 1}));
  const Picture colour = contact_sheet(images, 1, 3, 3);
  EXPECT_EQ(colour.shape, (PictureShape{7, 4, 3}));
  EXPECT_EQ(colour.pixels[2], 102);
  EXPECT_EQ(colour.pixels[9], 153);
}

TEST(ContactSheet, ShowsExactlyWhatWasRead) {
  const Picture picture = random_picture(32, 32, 3, 5);
  EXPECT_EQ(contact_sheet(fitted(picture, 32, 3), 32, 3, 1), picture);
}

TEST(ContactSheet, NumbersBeyondAreTheNearest) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Floats images = {-1.1F, 1e30F, -infinity, infinity, std::nanf(""), 0};
  const Picture sheet = contact_sheet(images, 1, 3, 1);
  EXPECT_EQ((std::vector<std::uint8_t>{sheet.pixels.begin(), sheet.pixels.begin() + 3}),
            (std::vector<std::uint8_t>{0, 255, 0}));
  EXPECT_EQ((std::vector<std::uint8_t>{sheet.pixels.end() - 3, sheet.pixels.end()}),
            (std::vector<std::uint8_t>{255, 0, 128}));
}

TEST(ContactSheet, RefusesPartsOfImages) {
  const Floats images(10);
  EXPECT_THROW(contact_sheet(images, 2, 1, 2), InvariantError);
  EXPECT_THROW(contact_sheet({}, 2, 1, 2), InvariantError);
  EXPECT_THROW(contact_sheet(Floats(8), 2, 2, 2), InvariantError);
  EXPECT_THROW(contact_sheet(Floats(8), 2, 1, 0), InvariantError);
}

}  // namespace
}  // namespace fourfold::test
