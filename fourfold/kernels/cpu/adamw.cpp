// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/adam_factors.hpp"
#include "fourfold/kernels/cpu/simd.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

using both::AdamFactors;

/// Writes the new value, also to `copy` where `copy` has another type, and the mean of the values
/// if there is one.
template <class A, class Copy, bool kMean>
struct Update {
  [[gnu::always_inline]] static inline void run(A* value, const A* gradient, A* mean, A* square,
                                                Copy* copy, A* value_mean, std::int64_t n,
                                                AdamFactors<A> f) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      A m = mean[i];
      A v = square[i];
      value[i] = f.updated(value[i], gradient[i], m, v);
      mean[i] = m;
      square[i] = v;
      if constexpr (!std::is_same_v<A, Copy>) copy[i] = narrow<Copy>(value[i]);
      if constexpr (kMean) {
        value_mean[i] = f.averaged(value_mean[i], value[i]);
      }
    }
  }
};

template <class A, class Copy>
struct Exchange {
  [[gnu::always_inline]] static inline void run(A* a, A* b, Copy* copy, std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const A kept = a[i];
      a[i] = b[i];
      b[i] = kept;
      if constexpr (!std::is_same_v<A, Copy>) copy[i] = narrow<Copy>(a[i]);
    }
  }
};

template <class A>
struct Squares {
  [[gnu::always_inline]] static inline void run(const A* values, std::int64_t n, double* result) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) {
      sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    *result = sum;
  }
};

template <class Body>
void by_type(const Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kDouble) return body(double{});
  body(float{});
}

}  // namespace

void adamw(const Tensor& value, const Tensor& gradient, const Tensor& mean, const Tensor& square,
           const Tensor& copy, const AdamStep& step, const Tensor& value_mean) {
  by_type(value, [&]<class A>(A) {
    const auto run = [&]<class Copy>(Copy* to) {
      const auto update = [&]<bool kMean>(A* means) {
        run_vectorised<Update<A, Copy, kMean>>(elements<A>(value), elements<const A>(gradient),
                                               elements<A>(mean), elements<A>(square), to, means,
                                               value.numel(), adam_factors<A>(step));
      };
      if (value_mean.defined()) {
        update.template operator()<true>(elements<A>(value_mean));
      } else {
        update.template operator()<false>(nullptr);
      }
    };
    if constexpr (std::is_same_v<A, float>) {
      if (copy.scalar_type() == at::kBFloat16) return run(elements<BFloat16>(copy));
    }
    run(elements<A>(value));
  });
}

void exchange(const Tensor& a, const Tensor& b, const Tensor& copy) {
  by_type(a, [&]<class A>(A) {
    const auto run = [&]<class Copy>(Copy* to) {
      run_vectorised<Exchange<A, Copy>>(elements<A>(a), elements<A>(b), to, a.numel());
    };
    if constexpr (std::is_same_v<A, float>) {
      if (copy.scalar_type() == at::kBFloat16) return run(elements<BFloat16>(copy));
    }
    run(elements<A>(a));
  });
}

void add_squares(const Tensor& values, const Tensor& sum) {
  double squares = 0;
  by_type(values, [&]<class A>(A) {
    run_vectorised<Squares<A>>(elements<const A>(values), values.numel(), &squares);
  });
  *elements<double>(sum) += squares;
}

}  // namespace fourfold::kernels::cpu
