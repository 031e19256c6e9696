// Kernels of images. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty_like.h>

#include "fourfold/kernels/functions.hpp"

#include "tests/kernels/case_inputs.hpp"
#include "tests/kernels/cases.hpp"

namespace fourfold::test {

namespace {

using at::ScalarType;
using at::Tensor;
using Results = std::vector<Tensor>;

kernels::ConvShape conv_shape(std::int64_t stride) {
  return {.height = 9,
          .width = 7,
          .kernel_height = 3,
          .kernel_width = 3,
          .stride = stride,
          .pad_height = 1,
          .pad_width = 1};
}

Results conv(ScalarType type, std::int64_t outputs, const kernels::ConvShape& shape) {
  constexpr std::int64_t kSamples = 5;
  const Tensor input = some(type, {kSamples * shape.pixels(), 12});
  const Tensor weight = some(type, {outputs, shape.taps(), 12});
  const Tensor output = kernels::conv(input, weight, shape);
  const Tensor gradient = some(type, output.sizes());
  const Tensor input_gradient = kernels::conv_input_gradient(gradient, weight, shape);
  Tensor weight_gradient = some(wide(type), weight.sizes());
  kernels::conv_weight_gradient(weight_gradient, gradient, input, shape, kernels::Into::kSum);
  Tensor fresh = zeros(wide(type), weight.sizes());
  kernels::conv_weight_gradient(fresh, gradient, input, shape, kernels::Into::kNew);
  return {output, input_gradient, weight_gradient, fresh};
}

Results channels(ScalarType type, bool silu) {
  const std::vector<std::int64_t> numbers = {4, kWidth};
  const Tensor x = some(type);
  const Tensor dy = some(type);
  Tensor mean = zeros(wide(type), numbers);
  Tensor squares = zeros(wide(type), numbers);
  kernels::channel_moments(x, mean, squares);
  const kernels::ChannelScale by{some(wide(type), numbers), some(wide(type), numbers), silu};
  Tensor y = at::empty_like(x);
  kernels::scale_channels(x, by, y);
  Tensor sums = zeros(wide(type), numbers);
  Tensor dots = zeros(wide(type), numbers);
  kernels::channel_sums(dy, x, by, mean, sums, dots);
  Tensor dx = at::empty_like(x);
  const kernels::ChannelGradient gradient{some(wide(type), numbers), some(wide(type), numbers),
                                          some(wide(type), numbers)};
  kernels::scale_channels_backward(dy, x, by, mean, gradient, dx);
  return {mean, squares, y, sums, dots, dx};
}

/// Two groups of six channels in two parts, the second of which is cut.
Results group_numbers(ScalarType of_tensors) {
  const ScalarType type = wide(of_tensors);
  const kernels::GroupMap map{{{0, 0, 6, 0}, {0, 6, 8, 1}, {1, 0, 4, 1}},
                              {{{0, 6}}, {{1, 2}, {2, 4}}, {{1, 2}, {2, 4}}}};
  const std::vector<Tensor> first = {some(type, {3, 8}), some(type, {3, 4})};
  const std::vector<Tensor> second = {some(type, {3, 8}).abs_(), some(type, {3, 4}).abs_()};
  Tensor moments = zeros(type, {3, 2, 3});
  kernels::segment_moments(map, first, second, 10, moments);
  std::vector<Tensor> means = {zeros(type, {3, 8}), zeros(type, {3, 4})};
  std::vector<Tensor> inverses = {zeros(type, {3, 8}), zeros(type, {3, 4})};
  kernels::group_moments(map, moments, 10, 1e-5, means, inverses);
  Tensor sums = zeros(type, {3, 2, 3});
  kernels::segment_sums(map, first, second, sums);
  std::vector<Tensor> a = {zeros(type, {3, 8}), zeros(type, {3, 4})};
  std::vector<Tensor> b = {zeros(type, {3, 8}), zeros(type, {3, 4})};
  kernels::group_means(map, sums, 10, a, b);
  return {moments, means[0], means[1], inverses[0], inverses[1], sums, a[0], a[1], b[0], b[1]};
}

Results resampling(ScalarType type) {
  const Tensor small = some(type);
  Tensor large = some(type, {4 * kRows, kWidth});
  kernels::spread_pixels(small, 4, 6, 0.3, large);
  const Tensor spread = large.clone();
  large.copy_(some(type, {4 * kRows, kWidth}));
  Tensor collected = at::empty_like(small);
  kernels::collect_pixels(large, 4, 6, 0.7, collected);
  return {spread, collected};
}

}  // namespace

std::vector<KernelCase> image_kernel_cases() {
  return {{"convolution", [](ScalarType t) { return conv(t, 10, conv_shape(1)); }},
          {"convolution with stride 2", [](ScalarType t) { return conv(t, 10, conv_shape(2)); }},
          {"convolution to 3 channels", [](ScalarType t) { return conv(t, 3, conv_shape(1)); }},
          {"convolution of single pixels",
           [](ScalarType t) { return conv(t, 10, {.height = 9, .width = 7}); }},
          {"numbers of channels", [](ScalarType t) { return channels(t, false); }},
          {"numbers of channels, with SiLU", [](ScalarType t) { return channels(t, true); }},
          {"numbers of groups", group_numbers},
          {"resampling", resampling}};
}

}  // namespace fourfold::test
