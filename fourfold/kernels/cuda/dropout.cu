// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/both/dropout.hpp"
#include "fourfold/kernels/cuda/block.cuh"

namespace fourfold::kernels::cuda {

#define FOURFOLD_INSTANCES(T)                                   \
  template void run_elements(const both::FillMask<T>&, Stream); \
  template void run_elements(const both::ApplyDropout<T>&, Stream);

FOURFOLD_INSTANCES(double)
FOURFOLD_INSTANCES(float)
FOURFOLD_INSTANCES(BFloat16)

}  // namespace fourfold::kernels::cuda
