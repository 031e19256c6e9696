// Only libtorch's tensor, for sources that are compiled without the precompiled header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace fourfold::tensor {

using at::Tensor;

}  // namespace fourfold::tensor
