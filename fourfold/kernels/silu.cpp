// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/silu.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

void silu_forward(const Tensor& x, Tensor& y) {
  FOURFOLD_CHECK(x.is_contiguous() && y.is_contiguous() && x.sizes() == y.sizes());
  if (x.is_meta()) return;
  functions_of(x).silu_forward(x, y);
}

void silu_backward(const Tensor& dy, const Tensor& x, Tensor& dx) {
  FOURFOLD_CHECK(dy.is_contiguous() && x.is_contiguous() && dx.is_contiguous());
  FOURFOLD_CHECK(dy.sizes() == x.sizes() && dx.sizes() == x.sizes());
  if (x.is_meta()) return;
  functions_of(x).silu_backward(dy, x, dx);
}

}  // namespace fourfold::kernels
