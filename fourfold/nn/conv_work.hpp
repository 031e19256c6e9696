// The convolutions of kernels/conv.hpp as steps of the recorded schedule, for the layers that
// convolve.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/conv.hpp"
#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

// A convolution counts as the product that it is: one row for each pixel of the output.

Tensor conv(const Mesh& mesh, const Tensor& input, const Tensor& weight,
            const kernels::ConvShape& shape);

Tensor conv_input_gradient(const Mesh& mesh, const Tensor& gradient, const Tensor& weight,
                           const kernels::ConvShape& shape);

/// Adds the gradient of the weight to its parameter, and ends the use.
void conv_weight_gradient(const Mesh& mesh, Parameter::Use& use, const Tensor& gradient,
                          const Tensor& input, const kernels::ConvShape& shape);

}  // namespace fourfold::nn
