// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "fourfold/kernels/cpu/exponential.hpp"
#include "fourfold/kernels/cpu/simd.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

template <class A>
constexpr A kRoot = static_cast<A>(0.79788456080286535588);  // sqrt(2 / pi)
template <class A>
constexpr A kCubic = static_cast<A>(0.044715);

/// (1 + tanh u) / 2 with u = root * (x + cubic * x^3). This equals 1 / (1 + exp(-2u)).
template <class A>
[[gnu::always_inline]] inline A gate(A x) {
  return sigmoid(2 * kRoot<A> * x * (1 + kCubic<A> * x * x));
}

template <class T>
struct Forward {
  [[gnu::always_inline]] static inline void run(const T* x, T* y, std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const Wide<T> value = widen(x[i]);
      y[i] = narrow<T>(value * gate(value));
    }
  }
};

template <class T>
struct Backward {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* dy, const T* x, T* dx, std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const A value = widen(x[i]);
      const A g = gate(value);
      const A slope = 2 * kRoot<A> * (1 + 3 * kCubic<A> * value * value);
      dx[i] = narrow<T>(widen(dy[i]) * (g + value * g * (1 - g) * slope));
    }
  }
};

}  // namespace

void gelu_forward(const Tensor& x, Tensor& y) {
  dispatch(x, [&]<class T>(T) {
    run_vectorised<Forward<T>>(elements<const T>(x), elements<T>(y), x.numel());
  });
}

void gelu_backward(const Tensor& dy, const Tensor& x, Tensor& dx) {
  dispatch(x, [&]<class T>(T) {
    run_vectorised<Backward<T>>(elements<const T>(dy), elements<const T>(x), elements<T>(dx),
                                x.numel());
  });
}

}  // namespace fourfold::kernels::cpu
