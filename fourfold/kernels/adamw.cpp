// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/adamw.hpp"

#include <cmath>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/simd.hpp"

namespace fourfold::kernels {

namespace {

/// The numbers of the step in the form that the loop uses.
template <class A>
struct Factors {
  explicit Factors(const AdamStep& s)
      : keep(static_cast<A>(1 - s.rate * s.decay)),
        beta1(static_cast<A>(s.beta1)),
        beta2(static_cast<A>(s.beta2)),
        scale(static_cast<A>(s.gradient_scale)),
        mean_decay(static_cast<A>(s.mean_decay)),
        epsilon(static_cast<A>(s.epsilon)) {
    const double correction1 = 1 - std::pow(s.beta1, static_cast<double>(s.step));
    const double correction2 = 1 - std::pow(s.beta2, static_cast<double>(s.step));
    rate = static_cast<A>(s.rate / correction1);
    root = static_cast<A>(1 / std::sqrt(correction2));
  }
  A keep;
  A beta1;
  A beta2;
  A scale;
  A mean_decay;
  A epsilon;
  A rate;  // with the correction of the mean
  A root;  // the correction of the deviation
};

/// Writes the new value, also to `copy` where `copy` has another type, and the mean of the values
/// if there is one.
template <class A, class Copy, bool kMean>
struct Update {
  [[gnu::always_inline]] static inline void run(A* value, const A* gradient, A* mean, A* square,
                                                Copy* copy, A* value_mean, std::int64_t n,
                                                Factors<A> f) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const A g = gradient[i] * f.scale;
      const A m = f.beta1 * mean[i] + (1 - f.beta1) * g;
      const A v = f.beta2 * square[i] + (1 - f.beta2) * g * g;
      mean[i] = m;
      square[i] = v;
      value[i] = f.keep * value[i] - f.rate * m / (std::sqrt(v) * f.root + f.epsilon);
      if constexpr (!std::is_same_v<A, Copy>) copy[i] = narrow<Copy>(value[i]);
      if constexpr (kMean) {
        value_mean[i] = f.mean_decay * value_mean[i] + (1 - f.mean_decay) * value[i];
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
  FOURFOLD_CHECK(tensor.scalar_type() == at::kFloat, "parameters are kept in float or double");
  body(float{});
}

}  // namespace

void adamw(const Tensor& value, const Tensor& gradient, const Tensor& mean, const Tensor& square,
           const Tensor& copy, const AdamStep& step, const Tensor& value_mean) {
  FOURFOLD_CHECK(value.is_contiguous() && gradient.is_contiguous() && mean.is_contiguous() &&
                 square.is_contiguous() && copy.is_contiguous());
  FOURFOLD_CHECK(value.numel() == copy.numel() && value.numel() == gradient.numel() &&
                 value.numel() == mean.numel() && value.numel() == square.numel());
  FOURFOLD_CHECK(!value_mean.defined() ||
                 (value_mean.is_contiguous() && value_mean.numel() == value.numel()));
  if (value.is_meta()) return;
  by_type(value, [&]<class A>(A) {
    const auto run = [&]<class Copy>(Copy* to) {
      const auto update = [&]<bool kMean>(A* means) {
        run_vectorised<Update<A, Copy, kMean>>(elements<A>(value), elements<const A>(gradient),
                                               elements<A>(mean), elements<A>(square), to, means,
                                               value.numel(), Factors<A>(step));
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
    FOURFOLD_CHECK(copy.is_same(value), "a copy is of another type");
    run(elements<A>(value));
  });
}

void exchange(const Tensor& a, const Tensor& b, const Tensor& copy) {
  FOURFOLD_CHECK(a.is_contiguous() && b.is_contiguous() && copy.is_contiguous());
  FOURFOLD_CHECK(a.numel() == b.numel() && a.numel() == copy.numel());
  if (a.is_meta()) return;
  by_type(a, [&]<class A>(A) {
    const auto run = [&]<class Copy>(Copy* to) {
      run_vectorised<Exchange<A, Copy>>(elements<A>(a), elements<A>(b), to, a.numel());
    };
    if constexpr (std::is_same_v<A, float>) {
      if (copy.scalar_type() == at::kBFloat16) return run(elements<BFloat16>(copy));
    }
    FOURFOLD_CHECK(copy.is_same(a), "a copy is of another type");
    run(elements<A>(a));
  });
}

double sum_of_squares(const Tensor& values) {
  FOURFOLD_CHECK(values.is_contiguous());
  double sum = 0;
  if (values.is_meta()) return sum;
  by_type(values, [&]<class A>(A) {
    run_vectorised<Squares<A>>(elements<const A>(values), values.numel(), &sum);
  });
  return sum;
}

}  // namespace fourfold::kernels
