// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/cpu/exponential.hpp"
#include "fourfold/kernels/cpu/simd.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

template <class T>
struct Forward {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* x, T* out, std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const A gate = widen(x[2 * i]);
      const A up = widen(x[2 * i + 1]);
      out[i] = narrow<T>(gate * sigmoid(gate) * up);
    }
  }
};

template <class T>
struct Backward {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* dout, const T* x, T* dx, std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const A gate = widen(x[2 * i]);
      const A up = widen(x[2 * i + 1]);
      const A d = widen(dout[i]);
      const A s = sigmoid(gate);
      dx[2 * i] = narrow<T>(d * up * (s + gate * s * (1 - s)));
      dx[2 * i + 1] = narrow<T>(d * gate * s);
    }
  }
};

}  // namespace

void swiglu_forward(const Tensor& x, Tensor& out) {
  dispatch(x, [&]<class T>(T) {
    run_vectorised<Forward<T>>(elements<const T>(x), elements<T>(out), out.numel());
  });
}

void swiglu_backward(const Tensor& dout, const Tensor& x, Tensor& dx) {
  dispatch(x, [&]<class T>(T) {
    run_vectorised<Backward<T>>(elements<const T>(dout), elements<const T>(x), elements<T>(dx),
                                dout.numel());
  });
}

}  // namespace fourfold::kernels::cpu
