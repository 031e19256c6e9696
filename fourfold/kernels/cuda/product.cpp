// cuBLAS multiplies bf16 with sums in float; with an `out` of float nothing is rounded.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/cuda/functions.hpp"

namespace fourfold::kernels::cuda {

void multiply(Tensor& out, const Tensor& a, const Tensor& b, Into into) {
  const aten::NoGraph guard;
  const bool sum = into == Into::kSum;
  if (out.scalar_type() == a.scalar_type()) {
    sum ? at::addmm_out(out, out, a, b) : at::mm_out(out, a, b);
  } else {
    sum ? at::addmm_out(out, out, a, b, out.scalar_type())
        : at::mm_out(out, a, b, out.scalar_type());
  }
}

}  // namespace fourfold::kernels::cuda
