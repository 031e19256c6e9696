// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/png_images.hpp"

#include <algorithm>
#include <utility>

#include "fourfold/base/check.hpp"
#include "fourfold/data/fit_image.hpp"
#include "fourfold/formats/png.hpp"

namespace fourfold::data {

namespace {

using formats::Picture;
using formats::PictureShape;

std::int64_t shorter_side(const PictureShape& shape) {
  return std::min(shape.width, shape.height);
}

std::string pixels_of(const PictureShape& shape) {
  return concat(shape.width, " x ", shape.height, " pixels");
}

void check_large_enough(const std::string& path, const PictureShape& shape, std::int64_t size) {
  if (shorter_side(shape) >= size) return;
  throw ConfigError(concat(path, " has ", pixels_of(shape), ", too small for ", size, " x ", size,
                           "; remove it or choose a size of ", shorter_side(shape), " at most"));
}

class PngImages : public ImageSet {
 public:
  PngImages(std::vector<std::string> paths, std::int64_t size, int channels)
      : ImageSet(static_cast<std::int64_t>(paths.size()), size, channels),
        paths_(std::move(paths)) {}

 private:
  void read_image(std::int64_t index, bool flip, float* pixels) const override {
    const std::string& path = paths_[static_cast<std::size_t>(index)];
    const Picture picture = formats::read_png(path);
    // The file may be another one than when the set was opened.
    check_large_enough(path, picture.shape, size());
    fit_image(picture.shape, picture.pixels.data(), size(), channels(), flip, pixels);
  }

  std::vector<std::string> paths_;
};

}  // namespace

std::shared_ptr<const ImageSet> open_png_images(std::vector<std::string> paths, std::int64_t size,
                                                int channels) {
  FOURFOLD_CHECK(!paths.empty());
  const PictureShape first = formats::read_png_shape(paths[0]);
  int most_channels = first.channels;
  for (const std::string& path : paths) {
    const PictureShape shape = formats::read_png_shape(path);
    check_large_enough(path, shape, size);
    if (size == 0 && shorter_side(shape) != shorter_side(first)) {
      throw ConfigError(concat(paths[0], " has ", pixels_of(first), " and ", path, " has ",
                               pixels_of(shape), "; give the size that all are to be scaled to"));
    }
    most_channels = std::max(most_channels, shape.channels);
  }
  return std::make_shared<const PngImages>(std::move(paths), size > 0 ? size : shorter_side(first),
                                           channels > 0 ? channels : most_channels);
}

}  // namespace fourfold::data
