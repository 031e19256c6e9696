// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/swiglu.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/exponential.hpp"
#include "fourfold/kernels/simd.hpp"

namespace fourfold::kernels {

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

void check(const Tensor& x, const Tensor& out) {
  FOURFOLD_CHECK(x.is_contiguous() && out.is_contiguous());
  FOURFOLD_CHECK_EQ(x.size(0), out.size(0));
  FOURFOLD_CHECK_EQ(x.size(1), 2 * out.size(1));
}

}  // namespace

void swiglu_forward(const Tensor& x, Tensor& out) {
  check(x, out);
  if (x.is_meta()) return;
  dispatch(x, [&]<class T>(T) {
    run_vectorised<Forward<T>>(elements<const T>(x), elements<T>(out), out.numel());
  });
}

void swiglu_backward(const Tensor& dout, const Tensor& x, Tensor& dx) {
  check(x, dout);
  check(dx, dout);
  if (x.is_meta()) return;
  dispatch(x, [&]<class T>(T) {
    run_vectorised<Backward<T>>(elements<const T>(dout), elements<const T>(x), elements<T>(dx),
                                dout.numel());
  });
}

}  // namespace fourfold::kernels
