// SwiGLU, the nonlinear function of Llama's MLP, and its gradient, in one loop each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

/// out[i] = silu(gate[i]) * up[i] with silu(g) = g / (1 + exp(-g)). The columns of x alternate:
/// column 2i is gate[i], column 2i + 1 is up[i]. So every split of the columns into even numbers
/// keeps the pairs together. x has twice as many columns as out. The tensors must be contiguous and
/// of one type.
void swiglu_forward(const Tensor& x, Tensor& out);
void swiglu_backward(const Tensor& dout, const Tensor& x, Tensor& dx);

}  // namespace fourfold::kernels
