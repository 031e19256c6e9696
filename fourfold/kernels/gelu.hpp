// GELU in the tanh form of GPT-2, and its gradient, in one loop each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

/// The tensors must be contiguous and of one type.
void gelu_forward(const Tensor& x, Tensor& y);
void gelu_backward(const Tensor& dy, const Tensor& x, Tensor& dx);

}  // namespace fourfold::kernels
