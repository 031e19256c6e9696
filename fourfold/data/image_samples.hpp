// The order in which training sees images.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "fourfold/data/image_set.hpp"

namespace fourfold::data {

/// Samples go through all images in a random order, then through all again in another order,
/// without end. A sample, and whether it is mirrored, depends only on its number and the seed. May
/// be used by several threads at once.
class ImageSamples {
 public:
  /// With `flip`, half of the samples are mirrored.
  ImageSamples(std::shared_ptr<const ImageSet> images, std::uint64_t seed, bool flip);

  const ImageSet& images() const { return *images_; }
  /// The image of sample number `sample` (0, 1, 2, ...).
  std::int64_t image_of(std::int64_t sample) const;
  /// Whether left and right are exchanged.
  bool is_flipped(std::int64_t sample) const;

  /// Writes the numbers of the sample's image (ImageSet::read).
  void read(std::int64_t sample, float* pixels) const;

 private:
  std::shared_ptr<const ImageSet> images_;
  std::uint64_t seed_;
  bool flip_;
};

}  // namespace fourfold::data
