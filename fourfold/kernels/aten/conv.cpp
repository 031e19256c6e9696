// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>

#include "fourfold/kernels/aten/convolution.hpp"
#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

// bf16 is convolved by way of float, as it is multiplied.

Tensor conv(const Tensor& input, const Tensor& weight, const ConvShape& shape) {
  const NoGraph guard;
  if (shape.is_pointwise()) {
    Tensor out = at::empty({input.size(0), weight.size(0)}, input.options());
    aten::multiply(out, input, weight.flatten(1).t(), Into::kNew);
    return out;
  }
  return convolve(wide(input), wide(weight), shape).to(input.scalar_type());
}

Tensor conv_input_gradient(const Tensor& gradient, const Tensor& weight, const ConvShape& shape) {
  const NoGraph guard;
  if (shape.is_pointwise()) {
    Tensor out = at::empty({gradient.size(0), weight.size(2)}, gradient.options());
    aten::multiply(out, gradient, weight.flatten(1), Into::kNew);
    return out;
  }
  return convolved_input_gradient(wide(gradient), wide(weight), shape).to(gradient.scalar_type());
}

void conv_weight_gradient(Tensor& out, const Tensor& gradient, const Tensor& input,
                          const ConvShape& shape, Into into) {
  const NoGraph guard;
  if (shape.is_pointwise()) {
    Tensor flat = out.flatten(1);
    return aten::multiply(flat, gradient.t(), input, into);
  }
  if (out.scalar_type() != gradient.scalar_type()) {
    return weight_gradient_by_taps(out, wide(gradient), wide(input), shape, into, aten::multiply);
  }
  const Tensor found = convolved_weight_gradient(wide(gradient), wide(input), shape);
  into == Into::kSum ? out.add_(found) : out.copy_(found);
}

}  // namespace fourfold::kernels::aten
