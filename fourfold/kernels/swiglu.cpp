// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/swiglu.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

namespace {

void check_pairs(const Tensor& x, const Tensor& out) {
  FOURFOLD_CHECK(x.is_contiguous() && out.is_contiguous());
  FOURFOLD_CHECK_EQ(x.size(0), out.size(0));
  FOURFOLD_CHECK_EQ(x.size(1), 2 * out.size(1));
}

}  // namespace

void swiglu_forward(const Tensor& x, Tensor& out) {
  check_pairs(x, out);
  if (x.is_meta()) return;
  functions_of(x).swiglu_forward(x, out);
}

void swiglu_backward(const Tensor& dout, const Tensor& x, Tensor& dx) {
  check_pairs(x, dout);
  check_pairs(dx, dout);
  if (x.is_meta()) return;
  functions_of(x).swiglu_backward(dout, x, dx);
}

}  // namespace fourfold::kernels
