// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/image_samples.hpp"

#include <utility>

#include "fourfold/base/check.hpp"
#include "fourfold/data/mix.hpp"
#include "fourfold/data/permutation.hpp"

namespace fourfold::data {

ImageSamples::ImageSamples(std::shared_ptr<const ImageSet> images, std::uint64_t seed, bool flip)
    : images_(std::move(images)), seed_(seed), flip_(flip) {
  FOURFOLD_CHECK(images_ != nullptr && images_->count() > 0);
}

std::int64_t ImageSamples::image_of(std::int64_t sample) const {
  FOURFOLD_CHECK(sample >= 0, "sample ", sample);
  const std::int64_t count = images_->count();
  return permute(count, seed_, static_cast<std::uint64_t>(sample / count), sample % count);
}

bool ImageSamples::is_flipped(std::int64_t sample) const {
  FOURFOLD_CHECK(sample >= 0, "sample ", sample);
  return flip_ && (mix(mix(~seed_) ^ static_cast<std::uint64_t>(sample)) >> 63) != 0;
}

void ImageSamples::read(std::int64_t sample, float* pixels) const {
  images_->read(image_of(sample), is_flipped(sample), pixels);
}

}  // namespace fourfold::data
