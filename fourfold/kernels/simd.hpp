// Loops compiled twice: for every processor, and for processors with wide vectors. The choice is
// made at run time (Choice::kVectors).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/base/processor.hpp"
#include "fourfold/kernels/elements.hpp"

namespace fourfold::kernels {

#ifdef __x86_64__
#define FOURFOLD_WIDE [[gnu::target("avx2,fma")]]
#else
#define FOURFOLD_WIDE
#endif

/// Runs `Body::run` compiled for wide vectors. Body must be a struct with a static, always inlined
/// `run`.
template <class Body, class... Args>
FOURFOLD_WIDE void run_wide(Args... args) {
  Body::run(args...);
}

template <class Body, class... Args>
void run_vectorised(Args... args) {
  if (takes_special_way(Choice::kVectors)) {
    run_wide<Body, Args...>(args...);
  } else {
    Body::run(args...);
  }
}

}  // namespace fourfold::kernels
