// For builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

const Functions& functions_of_device(const Tensor& /*tensor*/) {
  return aten::kFunctions;
}

}  // namespace fourfold::kernels
