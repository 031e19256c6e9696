// Sets of images to learn from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace fourfold::data {

/// Images of one size, numbered from 0 in an order that depends on nothing but the files. It is
/// read-only, and several threads may read at once.
class ImageSet {
 public:
  virtual ~ImageSet() = default;
  ImageSet(const ImageSet&) = delete;
  ImageSet& operator=(const ImageSet&) = delete;

  std::int64_t count() const { return count_; }
  /// The number of rows, and of columns, of each image.
  std::int64_t size() const { return size_; }
  /// 1 for grey, 3 for red, green and blue.
  int channels() const { return channels_; }
  /// The number of values of an image.
  std::int64_t values() const { return size_ * size_ * channels_; }

  /// Writes `values()` numbers between -1 and 1, rows x columns x channels: the image as it is, or
  /// with left and right exchanged. Throws ConfigError when its file is damaged, and InvariantError
  /// when there is no such image.
  void read(std::int64_t index, bool flip, float* pixels) const;

 protected:
  ImageSet(std::int64_t count, std::int64_t size, int channels)
      : count_(count), size_(size), channels_(channels) {}

 private:
  /// `read` for an index that has been checked.
  virtual void read_image(std::int64_t index, bool flip, float* pixels) const = 0;

  const std::int64_t count_;
  const std::int64_t size_;
  const int channels_;
};

struct ImageSplit {
  std::shared_ptr<const ImageSet> training;
  std::shared_ptr<const ImageSet> validation;  ///< null: there are no images for validation
};

/// Opens an IDX file of images, or a folder with such files (*idx3-ubyte*, of which train-images*
/// is for training and t10k-images* for validation), or else a folder with PNG files in it and
/// below, ordered by path. `size` and `channels` of 0 mean those of the data: then all pictures
/// must have the same shorter side, and are grey only if all are. Larger pictures are scaled down
/// and cut to a square. Throws ConfigError when there are no images, or one cannot be used or is
/// too small. Returns the images for training if the folder tells them from those for validation.
std::shared_ptr<const ImageSet> open_images(const std::string& path, std::int64_t size,
                                            int channels);

/// The same, with images for validation: those that the folder names, else the last images, as many
/// as `validation_share` of all (0 <= share < 1), but one at least unless the share is 0. Throws
/// ConfigError also when there is only one image to share.
ImageSplit open_image_split(const std::string& path, std::int64_t size, int channels,
                            double validation_share);

}  // namespace fourfold::data
