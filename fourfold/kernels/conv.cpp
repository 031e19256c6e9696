// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/conv.hpp"

#include <ATen/ops/empty.h>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

namespace {

std::int64_t samples_of(const Tensor& rows, std::int64_t pixels) {
  FOURFOLD_CHECK(rows.dim() == 2 && rows.is_contiguous() && rows.size(0) % pixels == 0);
  return rows.size(0) / pixels;
}

}  // namespace

Tensor conv(const Tensor& input, const Tensor& weight, const ConvShape& shape) {
  const std::int64_t samples = samples_of(input, shape.pixels());
  FOURFOLD_CHECK(weight.dim() == 3 && weight.size(1) == shape.taps() &&
                 weight.size(2) == input.size(1));
  if (input.is_meta()) {
    return at::empty({samples * shape.out_pixels(), weight.size(0)}, input.options());
  }
  return functions_of(input).conv(input, weight, shape);
}

Tensor conv_input_gradient(const Tensor& gradient, const Tensor& weight, const ConvShape& shape) {
  const std::int64_t samples = samples_of(gradient, shape.out_pixels());
  if (gradient.is_meta()) {
    return at::empty({samples * shape.pixels(), weight.size(2)}, gradient.options());
  }
  return functions_of(gradient).conv_input_gradient(gradient, weight, shape);
}

void conv_weight_gradient(Tensor& out, const Tensor& gradient, const Tensor& input,
                          const ConvShape& shape, Into into) {
  FOURFOLD_CHECK(out.dim() == 3 && out.size(0) == gradient.size(1) && out.size(1) == shape.taps() &&
                 out.size(2) == input.size(1));
  FOURFOLD_CHECK(samples_of(input, shape.pixels()) == samples_of(gradient, shape.out_pixels()));
  if (gradient.is_meta()) return;
  functions_of(gradient).conv_weight_gradient(out, gradient, input, shape, into);
}

}  // namespace fourfold::kernels
