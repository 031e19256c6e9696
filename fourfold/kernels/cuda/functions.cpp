// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/cuda/functions.hpp"

namespace fourfold::kernels {

namespace {

Functions functions_of_cuda() {
  Functions functions = aten::kFunctions;
#define FOURFOLD_OWN(name) functions.name = cuda::name;
  FOURFOLD_EACH_CUDA_KERNEL(FOURFOLD_OWN)
#undef FOURFOLD_OWN
  return functions;
}

}  // namespace

const Functions& functions_of_device(const Tensor& tensor) {
  static const Functions functions = functions_of_cuda();
  return tensor.is_cuda() ? functions : aten::kFunctions;
}

}  // namespace fourfold::kernels
