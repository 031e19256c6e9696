// GELU, SiLU and SwiGLU.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

namespace {

/// Columns 2i (part 0) or 2i + 1 (part 1) of a matrix.
Tensor alternate(const Tensor& x, std::int64_t part) {
  return x.view({x.size(0), x.size(1) / 2, 2}).select(2, part);
}

}  // namespace

void gelu_forward(const Tensor& x, Tensor& y) {
  const NoGraph guard;
  at::gelu_out(y, x, "tanh");
}

void gelu_backward(const Tensor& dy, const Tensor& x, Tensor& dx) {
  const NoGraph guard;
  at::gelu_backward_out(dx, dy, x, "tanh");
}

void silu_forward(const Tensor& x, Tensor& y) {
  const NoGraph guard;
  at::silu_out(y, x);
}

void silu_backward(const Tensor& dy, const Tensor& x, Tensor& dx) {
  const NoGraph guard;
  at::silu_backward_out(dx, dy, x);
}

void swiglu_forward(const Tensor& x, Tensor& out) {
  const NoGraph guard;
  out.copy_(at::silu(wide(alternate(x, 0))).mul_(wide(alternate(x, 1))));
}

void swiglu_backward(const Tensor& dout, const Tensor& x, Tensor& dx) {
  const NoGraph guard;
  const Tensor gate = wide(alternate(x, 0));
  const Tensor upstream = wide(dout);
  alternate(dx, 0).copy_(at::silu_backward(upstream.mul(wide(alternate(x, 1))), gate));
  alternate(dx, 1).copy_(at::silu(gate).mul_(upstream));
}

}  // namespace fourfold::kernels::aten
