// Loops written once and compiled for several instruction sets (decision 023). The choice is made
// at run time (Choice::kVectors).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/base/processor.hpp"
#include "fourfold/kernels/elements.hpp"

namespace fourfold::kernels::cpu {

#ifdef __x86_64__
#define FOURFOLD_AVX2 [[gnu::target("avx2,fma")]]
#define FOURFOLD_AVX512 \
  [[gnu::target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]]
#else
#define FOURFOLD_AVX2
#define FOURFOLD_AVX512
#endif

/// Run `Body::run` compiled for these vectors. Body must be a struct with a static, always inlined
/// `run`.
template <class Body, class... Args>
FOURFOLD_AVX2 void run_avx2(Args... args) {
  Body::run(args...);
}
template <class Body, class... Args>
FOURFOLD_AVX512 void run_avx512(Args... args) {
  Body::run(args...);
}

template <class Body, class... Args>
void run_vectorised(Args... args) {
  switch (way_of(Choice::kVectors)) {
    case 2:
      return run_avx512<Body, Args...>(args...);
    case 1:
      return run_avx2<Body, Args...>(args...);
    default:
      return Body::run(args...);
  }
}

}  // namespace fourfold::kernels::cpu
