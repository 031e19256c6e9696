// libtorch's convolutions of images that are stored as rows. oneDNN and cuDNN take such images
// without a copy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/conv.hpp"

namespace fourfold::kernels::aten {

// All tensors of a call have one type, which libtorch has convolutions of.

Tensor convolve(const Tensor& input, const Tensor& weight, const ConvShape& shape);
Tensor convolved_input_gradient(const Tensor& gradient, const Tensor& weight,
                                const ConvShape& shape);
/// out × taps × in.
Tensor convolved_weight_gradient(const Tensor& gradient, const Tensor& input,
                                 const ConvShape& shape);

/// The same as a product for each place of the window, which replaces `out` or is added to it.
/// libtorch's gradient of bf16 is rounded to bf16; that of a product that sums into float is not.
void weight_gradient_by_taps(const Tensor& out, const Tensor& gradient, const Tensor& input,
                             const ConvShape& shape, Into into, decltype(multiply)* product);

}  // namespace fourfold::kernels::aten
