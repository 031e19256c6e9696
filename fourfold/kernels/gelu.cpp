// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/gelu.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

void gelu_forward(const Tensor& x, Tensor& y) {
  FOURFOLD_CHECK(x.is_contiguous() && y.is_contiguous() && x.sizes() == y.sizes());
  if (x.is_meta()) return;
  functions_of(x).gelu_forward(x, y);
}

void gelu_backward(const Tensor& dy, const Tensor& x, Tensor& dx) {
  FOURFOLD_CHECK(dy.is_contiguous() && x.is_contiguous() && dx.is_contiguous());
  if (x.is_meta()) return;
  functions_of(x).gelu_backward(dy, x, dx);
}

}  // namespace fourfold::kernels
