// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/both/adamw.hpp"
#include "fourfold/kernels/cuda/block.cuh"

namespace fourfold::kernels::cuda {

template void run_elements(const both::AdamStepOf<double>&, Stream);
template void run_elements(const both::AdamStepOf<float>&, Stream);

}  // namespace fourfold::kernels::cuda
