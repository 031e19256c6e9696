// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/aten/convolution.hpp"

#include <array>

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>

namespace fourfold::kernels::aten {

namespace {

Tensor image_of(const Tensor& rows, std::int64_t height, std::int64_t width) {
  return rows.view({-1, height, width, rows.size(1)}).permute({0, 3, 1, 2});
}

Tensor rows_of(const Tensor& image) {
  return image.permute({0, 2, 3, 1}).contiguous().view({-1, image.size(1)});
}

Tensor image_of_weight(const Tensor& weight, const ConvShape& shape) {
  return weight.view({weight.size(0), shape.kernel_height, shape.kernel_width, weight.size(2)})
      .permute({0, 3, 1, 2});
}

struct Arguments {
  explicit Arguments(const ConvShape& shape)
      : stride{shape.stride, shape.stride},
        padding{shape.pad_height, shape.pad_width},
        dilation{shape.dilation, shape.dilation} {}
  std::array<std::int64_t, 2> stride;
  std::array<std::int64_t, 2> padding;
  std::array<std::int64_t, 2> dilation;
  std::array<std::int64_t, 2> none{0, 0};
};

/// The gradient of the input, or that of the weight. Of the other one only type and shape count.
Tensor backward(const Tensor& gradient, const Tensor& input, const Tensor& weight,
                const ConvShape& shape, bool of_input) {
  const Arguments a(shape);
  const auto [first, second, third] = at::convolution_backward(
      image_of(gradient, shape.out_height(), shape.out_width()),
      image_of(input, shape.height, shape.width), image_of_weight(weight, shape), c10::nullopt,
      a.stride, a.padding, a.dilation, false, a.none, 1, {of_input, !of_input, false});
  return of_input ? first : second;
}

/// The pixels of padded images that a place of the window sees, a row for each pixel of the output.
Tensor rows_of_tap(const Tensor& padded, const ConvShape& shape, std::int64_t tap) {
  const std::int64_t top = tap / shape.kernel_width * shape.dilation;
  const std::int64_t left = tap % shape.kernel_width * shape.dilation;
  return padded.slice(1, top, top + (shape.out_height() - 1) * shape.stride + 1, shape.stride)
      .slice(2, left, left + (shape.out_width() - 1) * shape.stride + 1, shape.stride)
      .reshape({-1, padded.size(3)});
}

}  // namespace

Tensor convolve(const Tensor& input, const Tensor& weight, const ConvShape& shape) {
  const Arguments a(shape);
  return rows_of(at::convolution(image_of(input, shape.height, shape.width),
                                 image_of_weight(weight, shape), c10::nullopt, a.stride, a.padding,
                                 a.dilation, false, a.none, 1));
}

Tensor convolved_input_gradient(const Tensor& gradient, const Tensor& weight,
                                const ConvShape& shape) {
  const std::int64_t samples = gradient.size(0) / shape.out_pixels();
  const Tensor input = at::empty({samples * shape.pixels(), weight.size(2)}, gradient.options());
  return rows_of(backward(gradient, input, weight, shape, true));
}

Tensor convolved_weight_gradient(const Tensor& gradient, const Tensor& input,
                                 const ConvShape& shape) {
  const Tensor weight =
      at::empty({gradient.size(1), shape.taps(), input.size(1)}, gradient.options());
  return backward(gradient, input, weight, shape, false)
      .permute({0, 2, 3, 1})
      .contiguous()
      .view(weight.sizes());
}

void weight_gradient_by_taps(const Tensor& out, const Tensor& gradient, const Tensor& input,
                             const ConvShape& shape, Into into, decltype(multiply)* product) {
  const Tensor padded = at::constant_pad_nd(
      input.view({-1, shape.height, shape.width, input.size(1)}),
      {0, 0, shape.pad_width, shape.pad_width, shape.pad_height, shape.pad_height});
  for (std::int64_t tap = 0; tap < shape.taps(); ++tap) {
    Tensor part = out.select(1, tap);
    product(part, gradient.t(), rows_of_tap(padded, shape, tap), into);
  }
}

}  // namespace fourfold::kernels::aten
