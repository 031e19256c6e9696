// Arithmetic that is written once for two compilers: nvcc makes code for GPUs of it, and the host's
// compiler makes code for the processor, with which tests run it. A function that many threads run
// together takes a `Team`: who this thread is, sums and maxima over the threads, and a barrier. A
// block of a GPU is a team (cuda/block.cuh), and so are some threads of a test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "fourfold/base/bfloat16.hpp"

#ifdef __CUDACC__
#define FOURFOLD_BOTH __device__ __forceinline__
#else
#define FOURFOLD_BOTH [[gnu::always_inline]] inline
#endif

namespace fourfold::kernels::both {

/// The type in which elements of T are computed.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

FOURFOLD_BOTH double widen(double value) {
  return value;
}
FOURFOLD_BOTH float widen(float value) {
  return value;
}
FOURFOLD_BOTH float widen(BFloat16 value) {
  return to_float(value);
}

template <class T>
FOURFOLD_BOTH T narrow(Wide<T> value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(value);
  } else {
    return value;
  }
}

}  // namespace fourfold::kernels::both
