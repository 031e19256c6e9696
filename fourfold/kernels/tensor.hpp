// libtorch's tensor, and no more of libtorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace fourfold::kernels {

using at::Tensor;

}  // namespace fourfold::kernels
