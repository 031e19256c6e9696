// The kernel of sums of bf16 in f32.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cuda_runtime_api.h>

#include "fourfold/comm/nccl/sum.hpp"
#include "fourfold/comm/nccl/sum_body.hpp"

namespace fourfold::comm::nccl {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 256;  // compute needs the device, too

__global__ void sum_kernel(Bf16Sum sum) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < sum.count;
       i += step) {
    sum_element(sum, i);
  }
}

}  // namespace

int sum_bf16(const Bf16Sum& sum, Stream stream) {
  const std::int64_t blocks = std::min((sum.count + kThreads - 1) / kThreads, kMostBlocks);
  if (blocks > 0) {
    sum_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        sum);
  }
  return static_cast<int>(cudaGetLastError());
}

}  // namespace fourfold::comm::nccl
