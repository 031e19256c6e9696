// The squared error of a prediction that ranks have the same copies of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

/// The sum of (target - prediction)² over all elements of `target`, divided by `terms`, in the type
/// of the target. The prediction, a matrix, may have more columns, which do not count. It
/// may be narrower than float. Differentiable with respect to the prediction. The function
/// overwrites the memory of the target.
Tensor squared_error(const Mesh& mesh, const Tensor& prediction, Tensor target, std::int64_t terms);

}  // namespace fourfold::nn
