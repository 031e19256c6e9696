// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/both/norm_rows.hpp"
#include "fourfold/kernels/cuda/block.cuh"

namespace fourfold::kernels::cuda {

using both::Norm;

#define FOURFOLD_INSTANCES(T)                                                  \
  template void run_rows(const both::Statistics<Norm::kLayer, T>&, Stream);    \
  template void run_rows(const both::Statistics<Norm::kRms, T>&, Stream);      \
  template void run_rows(const both::Apply<Norm::kLayer, T>&, Stream);         \
  template void run_rows(const both::ApplyRms<T>&, Stream);                    \
  template void run_rows(const both::WholeRows<Norm::kLayer, T>&, Stream);     \
  template void run_rows(const both::WholeRows<Norm::kRms, T>&, Stream);       \
  template void run_rows(const both::BackwardSums<Norm::kLayer, T>&, Stream);  \
  template void run_rows(const both::BackwardSums<Norm::kRms, T>&, Stream);    \
  template void run_rows(const both::BackwardApply<Norm::kLayer, T>&, Stream); \
  template void run_rows(const both::BackwardApply<Norm::kRms, T>&, Stream);   \
  template void run_elements(const both::ColumnSums<T>&, Stream);

FOURFOLD_INSTANCES(double)
FOURFOLD_INSTANCES(float)
FOURFOLD_INSTANCES(BFloat16)
template void run_elements(const both::AddParts<double>&, Stream);
template void run_elements(const both::AddParts<float>&, Stream);

}  // namespace fourfold::kernels::cuda
