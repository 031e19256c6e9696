// Sets of images: which files they are, in which order, and which images are for validation.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/image_set.hpp"

#include <cmath>
#include <numeric>
#include <thread>

#include "fourfold/formats/png.hpp"

#include "tests/data/support.hpp"
#include "tests/formats/image_bytes.hpp"

namespace fourfold::test {
namespace {

using data::ImageSet;
using data::ImageSplit;
using data::open_image_split;
using data::open_images;
using Images = std::shared_ptr<const ImageSet>;
using Numbers = std::vector<int>;

/// Images of one byte each, whose values are their numbers.
std::string counting_idx(std::uint32_t count, std::uint32_t side = 1, int first = 0) {
  std::string values;
  for (std::uint32_t image = 0; image < count; ++image) {
    values.append(side * side, static_cast<char>(first + static_cast<int>(image)));
  }
  return idx_bytes({count, side, side}, values);
}

std::vector<float> read(const Images& images, std::int64_t index, bool flip = false) {
  std::vector<float> pixels(static_cast<std::size_t>(images->values()), 99.0F);
  images->read(index, flip, pixels.data());
  return pixels;
}

/// The byte that the first value of every image was.
Numbers first_bytes(const Images& images) {
  Numbers bytes;
  for (std::int64_t i = 0; i < images->count(); ++i) {
    bytes.push_back(static_cast<int>(std::lround((read(images, i)[0] + 1) * 127.5F)));
  }
  return bytes;
}

Numbers range(int begin, int end) {
  Numbers all(static_cast<std::size_t>(end - begin));
  std::iota(all.begin(), all.end(), begin);
  return all;
}

class ImageFolder : public InFolder {
 protected:
  /// A picture of one grey, or of one colour.
  std::string picture(const std::string& name, std::int64_t width, std::int64_t height, int byte,
                      int channels = 1) const {
    formats::Picture all{{width, height, channels}, {}};
    all.pixels.assign(all.shape.bytes(), static_cast<std::uint8_t>(byte));
    write(name, "");
    formats::write_png(path(name), all);
    return path(name);
  }
  std::string open_refusal(const std::string& name, std::int64_t size = 0, int channels = 0) const {
    return refusal([&] { open_images(path(name), size, channels); });
  }
};

TEST_F(ImageFolder, AnIdxFile) {
  write("file", idx_bytes({2, 2, 2}, std::string("\0\x33\x66\x99\xff\xff\0\0", 8)));
  write("file.gz", gzip_bytes(content("file")));
  for (const char* name : {"file", "file.gz"}) {
    const Images images = open_images(path(name), 0, 0);
    EXPECT_EQ(images->count(), 2);
    EXPECT_EQ(images->size(), 2);
    EXPECT_EQ(images->channels(), 1);
    EXPECT_EQ(images->values(), 4);
    EXPECT_EQ(read(images, 0), (std::vector<float>{-1, -0.6F, -0.2F, 0.2F}));
    EXPECT_EQ(read(images, 0, true), (std::vector<float>{-0.6F, -1, 0.2F, -0.2F}));
    EXPECT_EQ(read(images, 1), (std::vector<float>{1, 1, -1, -1}));
    const Images scaled = open_images(path(name), 1, 3);
    EXPECT_EQ(scaled->values(), 3);
    EXPECT_EQ(read(scaled, 1), std::vector<float>(3));
    EXPECT_THROW(read(images, 2), InvariantError);
    EXPECT_THROW(read(images, -1), InvariantError);
  }
  EXPECT_THROW(open_images(path("file"), -1, 0), InvariantError);
  EXPECT_THROW(open_images(path("file"), 0, 2), InvariantError);
}

TEST_F(ImageFolder, IdxImagesNeedNotBeSquare) {
  write("file", idx_bytes({1, 2, 5}, std::string("\0\0\xff\0\0\0\0\xff\0\0", 10)));
  const Images images = open_images(path("file"), 0, 0);
  EXPECT_EQ(images->size(), 2);
  EXPECT_EQ(read(images, 0), (std::vector<float>{-1, 1, -1, 1}));
}

TEST_F(ImageFolder, RefusesIdxFilesWithoutImages) {
  write("labels", idx_bytes({3}, "abc"));
  EXPECT_SAYS(open_refusal("labels"), "labels has 3 labels; give the path of a file of images");
  write("none", idx_bytes({0, 28, 28}, ""));
  EXPECT_SAYS(open_refusal("none"), "none has no images");
  write("flat", idx_bytes({5, 0, 28}, ""));
  EXPECT_SAYS(open_refusal("flat"), "flat has no images");
  write("small", counting_idx(1, 28));
  EXPECT_SAYS(open_refusal("small", 32),
              "small has images of 28 x 28 pixels, too small for 32 x 32; choose a size of 28 at "
              "most");
  write("long", idx_bytes({1, 1, 16385}, std::string(16385, 'x')));
  EXPECT_SAYS(open_refusal("long"), "long has images of 16385 x 1 pixels, at most 16384");
  write("text", "some text");
  EXPECT_SAYS(open_refusal("text"), "text cannot be used: it is not an IDX file");
  EXPECT_SAYS(open_refusal("nothing"), "nothing cannot be read: No such file or directory");
}

TEST_F(ImageFolder, AFolderOfIdxFiles) {
  write("d/train-images-idx3-ubyte", counting_idx(5));
  write("d/train-labels-idx1-ubyte", idx_bytes({5}, "abcde"));
  write("d/t10k-images-idx3-ubyte.gz", gzip_bytes(counting_idx(3, 1, 100)));
  write("d/README", "text");
  EXPECT_EQ(first_bytes(open_images(path("d"), 0, 0)), range(0, 5));
  for (const double share : {0.0, 0.5}) {
    const ImageSplit split = open_image_split(path("d"), 0, 3, share);
    EXPECT_EQ(first_bytes(split.training), range(0, 5));
    EXPECT_EQ(first_bytes(split.validation), range(100, 103));
    EXPECT_EQ(split.validation->channels(), 3);
  }
  // An unpacked file comes before its packed one.
  write("d/train-images-idx3-ubyte.gz", "damaged");
  EXPECT_EQ(open_images(path("d"), 0, 0)->count(), 5);
  // The images for validation get the size of those for training.
  write("d/train-images-idx3-ubyte", counting_idx(5, 2));
  EXPECT_SAYS(refusal([&] { open_image_split(path("d"), 0, 0, 0.1); }),
              "t10k-images-idx3-ubyte.gz has images of 1 x 1 pixels, too small for 2 x 2");
}

TEST_F(ImageFolder, AFolderWithOneIdxFile) {
  write("d/faces.idx3-ubyte", counting_idx(4));
  EXPECT_EQ(open_images(path("d"), 0, 0)->count(), 4);
  const ImageSplit split = open_image_split(path("d"), 0, 0, 0.25);
  EXPECT_EQ(first_bytes(split.training), range(0, 3));
  EXPECT_EQ(first_bytes(split.validation), range(3, 4));
  write("d/more.idx3-ubyte", counting_idx(4));
  EXPECT_SAYS(open_refusal("d"),
              "d has several files of images: faces.idx3-ubyte, more.idx3-ubyte; give the path of "
              "one of them");
  write("d/train-images.idx3-ubyte", counting_idx(2));
  EXPECT_EQ(open_images(path("d"), 0, 0)->count(), 2);
  write("d/train-images-idx3-ubyte", counting_idx(2));
  EXPECT_SAYS(open_refusal("d"), "train-images-idx3-ubyte, train-images.idx3-ubyte; give");
}

TEST_F(ImageFolder, PngFilesInAFixedOrder) {
  picture("d/b.png", 3, 3, 2);
  picture("d/a/z.PNG", 3, 3, 1);
  picture("d/a.png", 3, 3, 0);
  picture("d/a/deep/er/x.png", 3, 3, 7);
  picture("d/c 2.png", 3, 3, 3);
  picture("d/.hidden.png", 3, 3, 50);
  picture("d/.folder/x.png", 3, 3, 51);
  picture("outside/x.png", 3, 3, 52);
  write("d/notes.txt", "text");
  write("d/png", "no ending");
  std::filesystem::create_directory(path("d/folder.png"));
  std::filesystem::create_directory_symlink(path("outside"), path("d/link"));
  std::filesystem::create_symlink(path("outside/x.png"), path("d/x.png"));
  std::filesystem::create_symlink("nowhere", path("d/broken.png"));
  const Images images = open_images(path("d"), 0, 0);
  EXPECT_EQ(first_bytes(images), (Numbers{0, 7, 1, 2, 3, 52}));
  EXPECT_EQ(images->size(), 3);
  EXPECT_EQ(images->channels(), 1);
  EXPECT_EQ(first_bytes(open_images(path("d") + "/", 0, 0)), first_bytes(images));
}

TEST_F(ImageFolder, PngFilesOfSeveralSizesAndColours) {
  picture("d/a.png", 6, 9, 10);
  picture("d/b.png", 30, 20, 20, 3);
  EXPECT_SAYS(open_refusal("d"), "a.png has 6 x 9 pixels and " + path("d/b.png") +
                                     " has 30 x 20 pixels; give the size that all are to be");
  const Images images = open_images(path("d"), 5, 0);
  EXPECT_EQ(images->size(), 5);
  EXPECT_EQ(images->channels(), 3);
  EXPECT_EQ(first_bytes(images), (Numbers{10, 20}));
  EXPECT_EQ(open_images(path("d"), 5, 1)->channels(), 1);
  EXPECT_EQ(first_bytes(open_images(path("d"), 6, 1)), (Numbers{10, 20}));
  EXPECT_SAYS(open_refusal("d", 7), path("d/a.png") +
                                        " has 6 x 9 pixels, too small for 7 x 7; remove it or "
                                        "choose a size of 6 at most");
}

TEST_F(ImageFolder, SidesOfPngFilesMayDifferInTheLongerOne) {
  picture("d/a.png", 6, 9, 1);
  picture("d/b.png", 8, 6, 2);
  EXPECT_EQ(open_images(path("d"), 0, 0)->size(), 6);
}

TEST_F(ImageFolder, RefusesPngFilesThatAreNone) {
  picture("d/a.png", 4, 4, 1);
  write("d/b.png", "\xff\xd8\xff JPEG");
  EXPECT_SAYS(open_refusal("d"), path("d/b.png") + " cannot be used: it is not a PNG file");
  // What is behind the first bytes is only seen when the image is read.
  picture("d/b.png", 4, 4, 1);
  const std::string bytes = content("d/b.png");
  write("d/b.png", bytes.substr(0, bytes.size() - 20));
  const Images images = open_images(path("d"), 0, 0);
  EXPECT_NO_THROW(read(images, 0));
  EXPECT_SAYS(refusal([&] { read(images, 1); }), path("d/b.png") + " cannot be used: ");
  // And so is what has changed meanwhile.
  picture("d/b.png", 3, 4, 1);
  EXPECT_SAYS(refusal([&] { read(images, 1); }), "has 3 x 4 pixels, too small for 4 x 4");
}

TEST_F(ImageFolder, RefusesFoldersWithoutImages) {
  write("d/notes.txt", "text");
  write("d/train-labels-idx1-ubyte", idx_bytes({1}, "a"));
  EXPECT_SAYS(open_refusal("d"), "there are no images in the folder " + path("d") +
                                     ": neither *.png in it or below nor *idx3-ubyte* in it");
}

TEST_F(ImageFolder, TheLastImagesAreForValidation) {
  write("file", counting_idx(200));
  const auto validation = [&](double share) {
    const ImageSplit split = open_image_split(path("file"), 0, 0, share);
    const auto kept = static_cast<int>(split.training->count());
    EXPECT_EQ(first_bytes(split.training), range(0, kept));
    EXPECT_EQ(first_bytes(split.validation), range(kept, 200));
    EXPECT_THROW(read(split.training, kept), InvariantError);
    return split.validation->count();
  };
  EXPECT_EQ(validation(0.05), 10);
  EXPECT_EQ(validation(0.29), 58);  // although 0.29 * 200 is less than 58 in binary
  EXPECT_EQ(validation(0.0001), 1);
  EXPECT_EQ(validation(0.9999), 199);
  const ImageSplit all = open_image_split(path("file"), 0, 0, 0);
  EXPECT_EQ(all.training->count(), 200);
  EXPECT_EQ(all.validation, nullptr);
  EXPECT_THROW(open_image_split(path("file"), 0, 0, 1), InvariantError);
  EXPECT_THROW(open_image_split(path("file"), 0, 0, -0.1), InvariantError);
  write("one", counting_idx(1));
  EXPECT_SAYS(refusal([&] { open_image_split(path("one"), 0, 0, 0.5); }),
              "one has only one image, but training and validation need one each");
  EXPECT_EQ(open_image_split(path("one"), 0, 0, 0).training->count(), 1);
}

TEST_F(ImageFolder, ThreadsReadAtTheSameTime) {
  write("file", counting_idx(100, 8));
  for (int i = 0; i < 20; ++i) picture(concat("d/", 10 + i, ".png"), 9, 8, i);
  for (const Images& images : {open_images(path("file"), 5, 3), open_images(path("d"), 5, 3)}) {
    std::vector<Numbers> results(4);
    std::vector<std::thread> threads;
    for (Numbers& result : results) {
      threads.emplace_back([&] { result = first_bytes(images); });
    }
    for (std::thread& thread : threads) thread.join();
    const auto expected = range(0, static_cast<int>(images->count()));
    for (const Numbers& result : results) EXPECT_EQ(result, expected);
  }
}

TEST(FashionMnist, TheSetOfDebianIsRead) {
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "the package dataset-fashion-mnist is not installed";
  }
  const ImageSplit split = open_image_split(folder, 0, 0, 0.05);
  EXPECT_EQ(split.training->count(), 60'000);
  EXPECT_EQ(split.validation->count(), 10'000);
  EXPECT_EQ(split.training->size(), 28);
  EXPECT_EQ(split.training->channels(), 1);
  // The published mean and deviation of the pixels for training, as numbers between 0 and 1.
  double sum = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < split.training->count(); ++i) {
    for (const float value : read(split.training, i)) {
      sum += (value + 1) / 2;
      squares += (value + 1) * (value + 1) / 4;
    }
  }
  const double count = 60'000.0 * 28 * 28;
  EXPECT_NEAR(sum / count, 0.2860, 5e-5);
  EXPECT_NEAR(std::sqrt(squares / count - sum * sum / count / count), 0.3530, 5e-5);
}

}  // namespace
}  // namespace fourfold::test
