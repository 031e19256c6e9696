// Matrix products, as the layers need them: into memory that is there, on strided views, added to
// what is there. Each is a line of the recorded schedule.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::tensor {

/// Whether a product replaces what is in `out` or is added to it.
enum class Into { kNew, kSum };

/// out = a·b or out += a·b. Transposed and strided views cost nothing, but for bf16 by way of float
/// (Choice::kBf16Products, docs/decisions/006), which copies. `out` may be wider than operands of
/// bf16. All memory that this needs is of the class workspace. For meta tensors nothing is done.
void multiply(Tensor& out, const Tensor& a, const Tensor& b, Into into = Into::kNew);

/// The same as a step of the schedule.
void product(const Mesh& mesh, const char* name, Tensor& out, const Tensor& a, const Tensor& b,
             Into into = Into::kNew);

}  // namespace fourfold::tensor
