// Only libtorch's tensor, for sources that are compiled without the precompiled header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace fourfold::tensor {

using at::Tensor;
/// libtorch's name for a list of tensors that may belong to a graph.
using variable_list = std::vector<Tensor>;

}  // namespace fourfold::tensor
