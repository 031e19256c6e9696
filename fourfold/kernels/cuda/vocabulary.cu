// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/both/vocabulary.hpp"
#include "fourfold/kernels/cuda/block.cuh"

namespace fourfold::kernels::cuda {

#define FOURFOLD_INSTANCES(T)                                   \
  template void run_rows(const both::Maxima<T>&, Stream);       \
  template void run_rows(const both::Exponentials<T>&, Stream); \
  template void run_rows(const both::LossGradient<T>&, Stream);

FOURFOLD_INSTANCES(double)
FOURFOLD_INSTANCES(float)
FOURFOLD_INSTANCES(BFloat16)

}  // namespace fourfold::kernels::cuda
