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
  A epsilon;
  A rate;  // with the correction of the mean
  A root;  // the correction of the deviation
};

/// Writes the new value, also to `copy` where `copy` has another type.
template <class A, class Copy>
struct Update {
  [[gnu::always_inline]] static inline void run(A* value, const A* gradient, A* mean, A* square,
                                                Copy* copy, std::int64_t n, Factors<A> f) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const A g = gradient[i] * f.scale;
      const A m = f.beta1 * mean[i] + (1 - f.beta1) * g;
      const A v = f.beta2 * square[i] + (1 - f.beta2) * g * g;
      mean[i] = m;
      square[i] = v;
      value[i] = f.keep * value[i] - f.rate * m / (std::sqrt(v) * f.root + f.epsilon);
      if constexpr (!std::is_same_v<A, Copy>) copy[i] = narrow<Copy>(value[i]);
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
           const Tensor& copy, const AdamStep& step) {
  FOURFOLD_CHECK(value.is_contiguous() && gradient.is_contiguous() && mean.is_contiguous() &&
                 square.is_contiguous() && copy.is_contiguous());
  FOURFOLD_CHECK(value.numel() == copy.numel() && value.numel() == gradient.numel() &&
                 value.numel() == mean.numel() && value.numel() == square.numel());
  if (value.is_meta()) return;
  by_type(value, [&]<class A>(A) {
    const auto run = [&]<class Copy>(Copy* to) {
      run_vectorised<Update<A, Copy>>(elements<A>(value), elements<const A>(gradient),
                                      elements<A>(mean), elements<A>(square), to, value.numel(),
                                      Factors<A>(step));
    };
    if constexpr (std::is_same_v<A, float>) {
      if (copy.scalar_type() == at::kBFloat16) return run(elements<BFloat16>(copy));
    }
    FOURFOLD_CHECK(copy.is_same(value), "a copy is of another type");
    run(elements<A>(value));
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
