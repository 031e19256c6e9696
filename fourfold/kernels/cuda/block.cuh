// How the threads of a GPU run code of both/.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "fourfold/kernels/cuda/launch.hpp"

namespace fourfold::kernels::cuda {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

/// A block as a team (both/compiler.hpp). Sums have one order: over the lanes of each warp, and
/// then over the warps.
class Block {
 public:
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ int threads() const { return kThreads; }
  __device__ void barrier() const { __syncthreads(); }

  template <class A>
  __device__ A sum(A value) const {
    return combined(value, [](A a, A b) { return a + b; });
  }

  /// The largest of the values; a NaN is skipped.
  template <class A>
  __device__ A largest(A value) const {
    return combined(value, [](A a, A b) { return a < b ? b : a; });
  }

 private:
  template <class A, class Combine>
  __device__ A combined(A value, const Combine& combine) const {
    __shared__ A parts[kThreads / kWarp];
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      value = combine(value, __shfl_down_sync(kAllLanes, value, distance));
    }
    __syncthreads();  // everyone has read the parts of the last time
    if (thread() % kWarp == 0) parts[thread() / kWarp] = value;
    __syncthreads();
    A all = parts[0];
    for (int warp = 1; warp < kThreads / kWarp; ++warp) all = combine(all, parts[warp]);
    return all;
  }
};

template <class Body>
__global__ void __launch_bounds__(kThreads) rows_kernel(const Body body) {
  const Block block;
  for (std::int64_t r = blockIdx.x; r < body.rows; r += gridDim.x) body(block, r);
}

template <class Body>
__global__ void __launch_bounds__(kThreads) elements_kernel(const Body body) {
  const auto step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (std::int64_t i = first; i < body.count(); i += step) body(i);
}

/// More blocks than any GPU runs at once; each takes several rows or elements if there are more.
constexpr std::int64_t kMostBlocks = 1 << 16;

template <class Body>
void run_rows(const Body& body, Stream stream) {
  if (body.rows == 0) return;
  const auto blocks = static_cast<unsigned>(std::min(body.rows, kMostBlocks));
  rows_kernel<<<blocks, kThreads, 0, stream>>>(body);
}

template <class Body>
void run_elements(const Body& body, Stream stream) {
  const std::int64_t count = (body.count() + kThreads - 1) / kThreads;
  if (count == 0) return;
  elements_kernel<<<static_cast<unsigned>(std::min(count, kMostBlocks)), kThreads, 0, stream>>>(
      body);
}

}  // namespace fourfold::kernels::cuda
