// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

/// bf16 is multiplied by way of float. This is right on every device and in every version of
/// libtorch, some of which round partial sums to bf16.
void multiply(Tensor& out, const Tensor& a, const Tensor& b, Into into) {
  const NoGraph guard;
  const Tensor left = wide(a);
  const Tensor right = wide(b);
  if (out.scalar_type() == left.scalar_type()) {
    into == Into::kSum ? at::addmm_out(out, out, left, right) : at::mm_out(out, left, right);
    return;
  }
  const Tensor product = at::mm(left, right);
  into == Into::kSum ? out.add_(product) : out.copy_(product);
}

}  // namespace fourfold::kernels::aten
