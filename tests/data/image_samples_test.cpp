// The order in which training sees images, and which of them are mirrored.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/image_samples.hpp"

#include <set>

#include "tests/data/support.hpp"
#include "tests/formats/image_bytes.hpp"

namespace fourfold::test {
namespace {

using data::ImageSamples;

/// 50 images of 2 x 2 pixels, whose left column has the number of the image and the right one 255.
class ImageOrder : public InFolder {
 protected:
  static constexpr std::int64_t kCount = 50;

  ImageOrder() {
    std::string values;
    for (int i = 0; i < kCount; ++i) {
      for (int row = 0; row < 2; ++row) values += {static_cast<char>(i), '\xff'};
    }
    write("images", idx_bytes({kCount, 2, 2}, values));
    images_ = data::open_images(path("images"), 0, 0);
  }

  std::shared_ptr<const data::ImageSet> images_;
};

TEST_F(ImageOrder, EveryEpochHasEveryImageOnceInAnotherOrder) {
  const ImageSamples samples(images_, 3, false);
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> second;
  for (std::int64_t i = 0; i < kCount; ++i) {
    first.push_back(samples.image_of(i));
    second.push_back(samples.image_of(kCount + i));
  }
  EXPECT_EQ(std::set<std::int64_t>(first.begin(), first.end()).size(), 50U);
  EXPECT_EQ(std::set<std::int64_t>(second.begin(), second.end()).size(), 50U);
  EXPECT_NE(first, second);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  const ImageSamples same(images_, 3, true);
  const ImageSamples other(images_, 4, false);
  std::vector<std::int64_t> others;
  for (std::int64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(same.image_of(i), first[static_cast<std::size_t>(i)]);
    others.push_back(other.image_of(i));
  }
  EXPECT_NE(others, first);
}

TEST_F(ImageOrder, HalfOfTheSamplesAreMirroredIfAskedFor) {
  const ImageSamples plain(images_, 3, false);
  const ImageSamples flipped(images_, 3, true);
  int mirrored = 0;
  int differs_in_next_epoch = 0;
  constexpr std::int64_t kSamples = 1000;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    ASSERT_FALSE(plain.is_flipped(i));
    mirrored += flipped.is_flipped(i) ? 1 : 0;
    differs_in_next_epoch += flipped.is_flipped(i) != flipped.is_flipped(i + kCount) ? 1 : 0;
    std::vector<float> pixels(4);
    flipped.read(i, pixels.data());
    const auto of_number = static_cast<float>(flipped.image_of(i)) / 127.5F - 1;
    EXPECT_NEAR(pixels[flipped.is_flipped(i) ? 1 : 0], of_number, 1e-6);
    EXPECT_EQ(pixels[flipped.is_flipped(i) ? 0 : 1], 1);
  }
  EXPECT_NEAR(mirrored, kSamples / 2, 80);
  EXPECT_NEAR(differs_in_next_epoch, kSamples / 2, 80);
}

}  // namespace
}  // namespace fourfold::test
