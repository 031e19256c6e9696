// Matrix products, as the layers need them: they write into existing memory, take strided views and
// can add to their output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

/// Whether a product replaces `out` or is added to it.
enum class Into { kNew, kSum };

/// out = a·b or out += a·b. Transposed and strided views cost nothing, except where bf16 is
/// multiplied by way of float (Choice::kBf16Products, docs/decisions/006), which copies. The type
/// of `out` may be wider than operands of bf16. For meta tensors nothing is done.
void multiply(Tensor& out, const Tensor& a, const Tensor& b, Into into = Into::kNew);

}  // namespace fourfold::kernels
