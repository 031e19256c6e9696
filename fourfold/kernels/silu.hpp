// SiLU, x / (1 + exp(-x)), and its gradient, in one loop each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

// The tensors are contiguous and of one type. For meta tensors nothing is done.

/// y may be x.
void silu_forward(const Tensor& x, Tensor& y);
/// dx may be dy.
void silu_backward(const Tensor& dy, const Tensor& x, Tensor& dx);

}  // namespace fourfold::kernels
