// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/idx_images.hpp"

#include <algorithm>
#include <utility>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/fit_image.hpp"
#include "fourfold/formats/idx.hpp"
#include "fourfold/formats/png.hpp"

namespace fourfold::data {

namespace {

using formats::IdxFile;
using formats::PictureShape;

class IdxImages : public ImageSet {
 public:
  IdxImages(IdxFile file, const PictureShape& shape, std::int64_t size, int channels)
      : ImageSet(file.shape()[0], size, channels), file_(std::move(file)), shape_(shape) {}

 private:
  void read_image(std::int64_t index, bool flip, float* pixels) const override {
    const std::size_t begin = static_cast<std::size_t>(index) * shape_.bytes();
    fit_image(shape_, file_.values().data() + begin, size(), channels(), flip, pixels);
  }

  IdxFile file_;
  PictureShape shape_;  // of each image in the file
};

/// The shape of each image.
PictureShape image_shape(const IdxFile& file) {
  const std::string path = file.path().string();
  if (file.shape().size() != 3) {
    throw ConfigError(
        concat(path, " has ", file.shape()[0], " labels; give the path of a file of images"));
  }
  if (file.values().empty()) {
    throw ConfigError(concat(path, " has no images; give the path of another file"));
  }
  const PictureShape shape = {file.shape()[2], file.shape()[1], 1};
  if (std::max(shape.width, shape.height) > formats::kLongestSide) {
    throw ConfigError(concat(path, " has images of ", shape.width, " x ", shape.height,
                             " pixels, at most ", formats::kLongestSide,
                             " on a side are read; scale them down"));
  }
  return shape;
}

}  // namespace

std::shared_ptr<const ImageSet> open_idx_images(const std::string& path, std::int64_t size,
                                                int channels) {
  IdxFile file(path);
  const PictureShape shape = image_shape(file);
  const std::int64_t shorter = std::min(shape.width, shape.height);
  if (shorter < size) {
    throw ConfigError(concat(path, " has images of ", shape.width, " x ", shape.height,
                             " pixels, too small for ", size, " x ", size, "; choose a size of ",
                             shorter, " at most"));
  }
  return std::make_shared<const IdxImages>(std::move(file), shape, size > 0 ? size : shorter,
                                           channels > 0 ? channels : 1);
}

}  // namespace fourfold::data
