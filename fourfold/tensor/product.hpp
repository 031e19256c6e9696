// Matrix products, as the layers need them: they write into existing memory, take strided views and
// can add to their output. Each product is a line of the recorded schedule.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::tensor {

/// Whether a product replaces `out` or is added to it.
enum class Into { kNew, kSum };

/// out = a·b or out += a·b. Transposed and strided views cost nothing, except where bf16 is
/// multiplied by way of float (Choice::kBf16Products, docs/decisions/006), which copies. The type
/// of `out` may be wider than operands of bf16. All memory that this needs belongs to the class
/// workspace. For meta tensors nothing is done.
void multiply(Tensor& out, const Tensor& a, const Tensor& b, Into into = Into::kNew);

/// The same product, as a step of the schedule.
void product(const Mesh& mesh, const char* name, Tensor& out, const Tensor& a, const Tensor& b,
             Into into = Into::kNew);

}  // namespace fourfold::tensor
