// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/cpu/softmax.hpp"

#include <algorithm>
#include <cmath>

#include "fourfold/kernels/cpu/exponential.hpp"
#include "fourfold/kernels/cpu/maximum.hpp"
#include "fourfold/kernels/cpu/simd.hpp"

namespace fourfold::kernels::cpu {

namespace {

template <class A>
struct Softmax {
  [[gnu::always_inline]] static inline void run(A* scores, ScoreBlock block, A scale, A* logsum,
                                                A* inverse) {
    for (std::int64_t r = 0; r < block.rows; ++r, scores += block.keys) {
      const std::int64_t seen = block.seen(r);
      const A largest = scale * largest_of(scores, seen, scores[0]);
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < seen; ++i) {
        const A e = exponential(scores[i] * scale - largest);
        scores[i] = e;
        sum += e;
      }
      std::fill(scores + seen, scores + block.keys, A{});
      logsum[r] = largest + std::log(sum);
      inverse[r] = 1 / sum;
    }
  }
};

template <class A>
struct SoftmaxAgain {
  [[gnu::always_inline]] static inline void run(A* scores, ScoreBlock block, A scale,
                                                const A* logsum) {
    for (std::int64_t r = 0; r < block.rows; ++r, scores += block.keys) {
      const std::int64_t seen = block.seen(r);
      const A shift = logsum[r];
#pragma GCC ivdep
      for (std::int64_t i = 0; i < seen; ++i) scores[i] = exponential(scores[i] * scale - shift);
      std::fill(scores + seen, scores + block.keys, A{});
    }
  }
};

template <class A>
struct SoftmaxGradient {
  [[gnu::always_inline]] static inline void run(A* gradients, const A* p, ScoreBlock block, A scale,
                                                const A* dots) {
    for (std::int64_t r = 0; r < block.rows; ++r, gradients += block.keys, p += block.keys) {
      const A dot = dots[r];
#pragma GCC ivdep
      for (std::int64_t i = 0; i < block.keys; ++i) {
        gradients[i] = scale * p[i] * (gradients[i] - dot);
      }
    }
  }
};

template <class A>
struct ScaleRows {
  [[gnu::always_inline]] static inline void run(A* rows, std::int64_t count, std::int64_t n,
                                                std::int64_t step, const A* factors) {
    for (std::int64_t r = 0; r < count; ++r, rows += step) {
      const A factor = factors[r];
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) rows[i] *= factor;
    }
  }
};

template <class A>
struct RowDots {
  [[gnu::always_inline]] static inline void run(const A* a, const A* b, std::int64_t count,
                                                std::int64_t n, std::int64_t step, A* dots) {
    for (std::int64_t r = 0; r < count; ++r, a += step, b += step) {
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
      dots[r] = sum;
    }
  }
};

template <class A>
struct MultiplyInto {
  [[gnu::always_inline]] static inline void run(A* out, const A* a, const A* b, std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
  }
};

}  // namespace

void multiply_into(float* out, const float* a, const float* b, std::int64_t n) {
  run_vectorised<MultiplyInto<float>>(out, a, b, n);
}
void multiply_into(double* out, const double* a, const double* b, std::int64_t n) {
  run_vectorised<MultiplyInto<double>>(out, a, b, n);
}

void scale_rows(float* rows, std::int64_t count, std::int64_t n, std::int64_t step,
                const float* factors) {
  run_vectorised<ScaleRows<float>>(rows, count, n, step, factors);
}
void scale_rows(double* rows, std::int64_t count, std::int64_t n, std::int64_t step,
                const double* factors) {
  run_vectorised<ScaleRows<double>>(rows, count, n, step, factors);
}

void row_dots(const float* a, const float* b, std::int64_t count, std::int64_t n, std::int64_t step,
              float* dots) {
  run_vectorised<RowDots<float>>(a, b, count, n, step, dots);
}
void row_dots(const double* a, const double* b, std::int64_t count, std::int64_t n,
              std::int64_t step, double* dots) {
  run_vectorised<RowDots<double>>(a, b, count, n, step, dots);
}

void softmax_block(float* scores, const ScoreBlock& block, float scale, float* logsum,
                   float* inverse) {
  run_vectorised<Softmax<float>>(scores, block, scale, logsum, inverse);
}
void softmax_block(double* scores, const ScoreBlock& block, double scale, double* logsum,
                   double* inverse) {
  run_vectorised<Softmax<double>>(scores, block, scale, logsum, inverse);
}

void softmax_again(float* scores, const ScoreBlock& block, float scale, const float* logsum) {
  run_vectorised<SoftmaxAgain<float>>(scores, block, scale, logsum);
}
void softmax_again(double* scores, const ScoreBlock& block, double scale, const double* logsum) {
  run_vectorised<SoftmaxAgain<double>>(scores, block, scale, logsum);
}

void softmax_gradient(float* gradients, const float* p, const ScoreBlock& block, float scale,
                      const float* dots) {
  run_vectorised<SoftmaxGradient<float>>(gradients, p, block, scale, dots);
}
void softmax_gradient(double* gradients, const double* p, const ScoreBlock& block, double scale,
                      const double* dots) {
  run_vectorised<SoftmaxGradient<double>>(gradients, p, block, scale, dots);
}

}  // namespace fourfold::kernels::cpu
