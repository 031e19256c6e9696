// Convolutions of images that are stored as rows: a matrix with a row for each pixel of each sample
// and a column for each channel. So an image is a picture in the order height, width, channel,
// which oneDNN takes without a copy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/product.hpp"

namespace fourfold::kernels {

/// The window that a convolution moves over the images of a sample, and the size of these.
struct ConvShape {
  std::int64_t height = 1;  ///< of the input
  std::int64_t width = 1;
  std::int64_t kernel_height = 1;
  std::int64_t kernel_width = 1;
  std::int64_t stride = 1;
  std::int64_t pad_height = 0;  ///< zeros above, and as many below
  std::int64_t pad_width = 0;
  std::int64_t dilation = 1;

  std::int64_t taps() const { return kernel_height * kernel_width; }
  std::int64_t out_height() const {
    return (height + 2 * pad_height - dilation * (kernel_height - 1) - 1) / stride + 1;
  }
  std::int64_t out_width() const {
    return (width + 2 * pad_width - dilation * (kernel_width - 1) - 1) / stride + 1;
  }
  std::int64_t pixels() const { return height * width; }
  std::int64_t out_pixels() const { return out_height() * out_width(); }
  /// Whether every pixel of the output is computed from the same pixel of the input alone: then the
  /// convolution is a product of matrices.
  bool is_pointwise() const {
    return taps() == 1 && stride == 1 && pad_height == 0 && pad_width == 0;
  }

  bool operator==(const ConvShape&) const = default;
};

// Weights are out × taps × in. All tensors are contiguous and have one type, except that a gradient
// of weights of bf16 may be added to float. For meta tensors only the shapes are right.

/// The output, samples * out_pixels rows.
Tensor conv(const Tensor& input, const Tensor& weight, const ConvShape& shape);

/// The gradient of the input.
Tensor conv_input_gradient(const Tensor& gradient, const Tensor& weight, const ConvShape& shape);

/// The gradient of the weight, which replaces `out` or is added to it.
void conv_weight_gradient(Tensor& out, const Tensor& gradient, const Tensor& input,
                          const ConvShape& shape, Into into);

}  // namespace fourfold::kernels
