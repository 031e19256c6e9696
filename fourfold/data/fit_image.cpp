// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/fit_image.hpp"

#include <algorithm>
#include <vector>

#include "fourfold/base/check.hpp"

namespace fourfold::data {

namespace {

/// Values are counted in thousandths of a byte, in which the weights of luma are whole numbers. All
/// sums are whole numbers, too, so that they are exact and their order does not matter: they stay
/// below kLongestSide^2 * 255 * kUnit < 2^46.
constexpr std::int64_t kUnit = 1000;
constexpr std::int64_t kRed = 299;
constexpr std::int64_t kGreen = 587;
constexpr std::int64_t kBlue = 114;
static_assert(kRed + kGreen + kBlue == kUnit);

/// Averages the square in the middle of a picture.
class Averager {
 public:
  Averager(const formats::PictureShape& shape, const std::uint8_t* pixels, std::int64_t size,
           int channels)
      : side_(std::min(shape.width, shape.height)),
        size_(size),
        row_bytes_(shape.width * shape.channels),
        stride_(shape.channels),
        planes_(std::min(shape.channels, channels)),
        corner_(pixels + (shape.height - side_) / 2 * row_bytes_ +
                (shape.width - side_) / 2 * shape.channels),
        columns_(static_cast<std::size_t>(side_ * planes_)) {}

  /// How many values a pixel has: one that all channels share, or one for each.
  int planes() const { return planes_; }

  /// Adds up the rows of the picture that row `out` of the result covers.
  void take_row(std::int64_t out) {
    std::fill(columns_.begin(), columns_.end(), 0);
    for (std::int64_t in = first(out); in < end(out); ++in) {
      const std::int64_t weight = covered(in, out);
      const std::uint8_t* row = corner_ + in * row_bytes_;
      std::size_t at = 0;
      for (std::int64_t column = 0; column < side_; ++column) {
        for (int plane = 0; plane < planes_; ++plane) {
          columns_[at++] += weight * value(row + column * stride_, plane);
        }
      }
    }
  }

  /// A value of the row that was taken, between -1 and 1.
  float average(std::int64_t out, int plane) const {
    std::int64_t sum = 0;
    for (std::int64_t in = first(out); in < end(out); ++in) {
      sum += covered(in, out) * columns_[static_cast<std::size_t>(in * planes_ + plane)];
    }
    const auto half = static_cast<double>(side_ * side_ * kUnit) * 127.5;
    return static_cast<float>(static_cast<double>(sum) / half - 1);
  }

 private:
  // Lengths along a side are counted in 1 / size_ of a pixel of the picture: its pixels have the
  // length size_, and those of the result side_.
  std::int64_t first(std::int64_t out) const { return out * side_ / size_; }
  std::int64_t end(std::int64_t out) const { return ((out + 1) * side_ + size_ - 1) / size_; }
  std::int64_t covered(std::int64_t in, std::int64_t out) const {
    return std::min((in + 1) * size_, (out + 1) * side_) - std::max(in * size_, out * side_);
  }

  std::int64_t value(const std::uint8_t* pixel, int plane) const {
    if (stride_ == planes_) return kUnit * pixel[plane];
    return kRed * pixel[0] + kGreen * pixel[1] + kBlue * pixel[2];
  }

  std::int64_t side_;
  std::int64_t size_;
  std::int64_t row_bytes_;
  int stride_;
  int planes_;
  const std::uint8_t* corner_;
  std::vector<std::int64_t> columns_;  // side_ x planes_ sums over rows
};

}  // namespace

void fit_image(const formats::PictureShape& shape, const std::uint8_t* pixels, std::int64_t size,
               int channels, bool flip, float* out) {
  FOURFOLD_CHECK(size > 0 && size <= std::min(shape.width, shape.height) &&
                     std::max(shape.width, shape.height) <= formats::kLongestSide,
                 shape.width, " x ", shape.height, " to ", size);
  Averager averager(shape, pixels, size, channels);
  for (std::int64_t row = 0; row < size; ++row) {
    averager.take_row(row);
    for (std::int64_t column = 0; column < size; ++column) {
      const std::int64_t place = row * size + (flip ? size - 1 - column : column);
      for (int channel = 0; channel < channels; ++channel) {
        const int plane = std::min(channel, averager.planes() - 1);
        out[place * channels + channel] = averager.average(column, plane);
      }
    }
  }
}

}  // namespace fourfold::data
