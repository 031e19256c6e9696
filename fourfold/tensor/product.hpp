// Matrix products as steps of the recorded schedule.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/product.hpp"
#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::tensor {

/// kernels::multiply, as a step of the schedule. All memory that the product needs belongs to the
/// class workspace.
void product(const Mesh& mesh, const char* name, Tensor& out, const Tensor& a, const Tensor& b,
             kernels::Into into = kernels::Into::kNew);

}  // namespace fourfold::tensor
