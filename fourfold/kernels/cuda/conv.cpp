// cuDNN convolves bf16 with sums in float, and rounds the result to bf16.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>

#include "fourfold/kernels/aten/convolution.hpp"
#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/cuda/functions.hpp"

namespace fourfold::kernels::cuda {

Tensor conv(const Tensor& input, const Tensor& weight, const ConvShape& shape) {
  const aten::NoGraph guard;
  if (!shape.is_pointwise()) return aten::convolve(input, weight, shape);
  Tensor out = at::empty({input.size(0), weight.size(0)}, input.options());
  cuda::multiply(out, input, weight.flatten(1).t(), Into::kNew);
  return out;
}

Tensor conv_input_gradient(const Tensor& gradient, const Tensor& weight, const ConvShape& shape) {
  const aten::NoGraph guard;
  if (!shape.is_pointwise()) return aten::convolved_input_gradient(gradient, weight, shape);
  Tensor out = at::empty({gradient.size(0), weight.size(2)}, gradient.options());
  cuda::multiply(out, gradient, weight.flatten(1), Into::kNew);
  return out;
}

void conv_weight_gradient(Tensor& out, const Tensor& gradient, const Tensor& input,
                          const ConvShape& shape, Into into) {
  const aten::NoGraph guard;
  if (shape.is_pointwise()) {
    Tensor flat = out.flatten(1);
    return cuda::multiply(flat, gradient.t(), input, into);
  }
  if (out.scalar_type() != gradient.scalar_type()) {
    return aten::weight_gradient_by_taps(out, gradient, input, shape, into, cuda::multiply);
  }
  const Tensor found = aten::convolved_weight_gradient(gradient, input, shape);
  into == Into::kSum ? out.add_(found) : out.copy_(found);
}

}  // namespace fourfold::kernels::cuda
