// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/image_set.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fourfold/base/check.hpp"
#include "fourfold/data/idx_images.hpp"
#include "fourfold/data/image_files.hpp"
#include "fourfold/data/png_images.hpp"

namespace fourfold::data {

namespace {

using Images = std::shared_ptr<const ImageSet>;

/// Some consecutive images of a set.
class ImageRange : public ImageSet {
 public:
  ImageRange(Images all, std::int64_t begin, std::int64_t end)
      : ImageSet(end - begin, all->size(), all->channels()), all_(std::move(all)), begin_(begin) {}

 private:
  void read_image(std::int64_t index, bool flip, float* pixels) const override {
    all_->read(begin_ + index, flip, pixels);
  }

  Images all_;
  std::int64_t begin_;
};

Images open_training(const ImageFiles& files, std::int64_t size, int channels) {
  FOURFOLD_CHECK(size >= 0 && (channels == 0 || channels == 1 || channels == 3), "images of size ",
                 size, " with ", channels, " channels");
  if (!files.idx.empty()) return open_idx_images(files.idx, size, channels);
  return open_png_images(files.pngs, size, channels);
}

}  // namespace

void ImageSet::read(std::int64_t index, bool flip, float* pixels) const {
  FOURFOLD_CHECK(index >= 0 && index < count_, "image ", index, " of ", count_);
  read_image(index, flip, pixels);
}

Images open_images(const std::string& path, std::int64_t size, int channels) {
  return open_training(find_images(path), size, channels);
}

ImageSplit open_image_split(const std::string& path, std::int64_t size, int channels,
                            double validation_share) {
  FOURFOLD_CHECK(validation_share >= 0 && validation_share < 1, "share ", validation_share);
  const ImageFiles files = find_images(path);
  const Images all = open_training(files, size, channels);
  if (!files.validation_idx.empty()) {
    return {all, open_idx_images(files.validation_idx, all->size(), all->channels())};
  }
  if (validation_share == 0) return {all, nullptr};
  if (all->count() < 2) {
    throw ConfigError(concat(path, " has only one image, but training and validation need one ",
                             "each; add images or keep no share for validation"));
  }
  const std::int64_t share = std::llround(validation_share * static_cast<double>(all->count()));
  const std::int64_t kept = all->count() - std::clamp<std::int64_t>(share, 1, all->count() - 1);
  return {std::make_shared<const ImageRange>(all, 0, kept),
          std::make_shared<const ImageRange>(all, kept, all->count())};
}

}  // namespace fourfold::data
