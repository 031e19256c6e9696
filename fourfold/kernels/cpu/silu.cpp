// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/cpu/exponential.hpp"
#include "fourfold/kernels/cpu/simd.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

template <class T>
struct Forward {
  [[gnu::always_inline]] static inline void run(const T* x, T* y, std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const Wide<T> value = widen(x[i]);
      y[i] = narrow<T>(value * sigmoid(value));
    }
  }
};

template <class T>
struct Backward {
  [[gnu::always_inline]] static inline void run(const T* dy, const T* x, T* dx, std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const Wide<T> value = widen(x[i]);
      const Wide<T> s = sigmoid(value);
      dx[i] = narrow<T>(widen(dy[i]) * s * (1 + value * (1 - s)));
    }
  }
};

}  // namespace

void silu_forward(const Tensor& x, Tensor& y) {
  dispatch(x, [&]<class T>(T) {
    run_vectorised<Forward<T>>(elements<const T>(x), elements<T>(y), x.numel());
  });
}

void silu_backward(const Tensor& dy, const Tensor& x, Tensor& dx) {
  dispatch(x, [&]<class T>(T) {
    run_vectorised<Backward<T>>(elements<const T>(dy), elements<const T>(x), elements<T>(dx),
                                x.numel());
  });
}

}  // namespace fourfold::kernels::cpu
