// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/norm_kernels.hpp"

#include <cmath>

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/simd.hpp"

// The sums may be formed in the order that suits the vectors. For a given length the order is
// always the same.
#define FOURFOLD_SUM _Pragma("omp simd reduction(+ : a, b)")

namespace fourfold::tensor {

namespace {

template <class T>
struct Statistics {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* x, A* mean, A* squares, std::int64_t rows,
                                                std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, x += n) {
      A a = 0;
      A b = 0;
      FOURFOLD_SUM
      for (std::int64_t i = 0; i < n; ++i) a += widen(x[i]);
      const A centre = a / static_cast<A>(n);
      a = 0;
      FOURFOLD_SUM
      for (std::int64_t i = 0; i < n; ++i) {
        const A d = widen(x[i]) - centre;
        b += d * d;
      }
      mean[r] = centre;
      squares[r] = b;
    }
  }
};

template <class T>
struct Apply {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* x, const A* mean, const A* rstd,
                                                const A* scale, const A* shift, T* y,
                                                std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
      const A m = mean[r];
      const A s = rstd[r];
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) {
        y[i] = narrow<T>((widen(x[i]) - m) * s * scale[i] + shift[i]);
      }
    }
  }
};

template <class T>
struct BackwardSums {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* dy, const T* x, const A* mean,
                                                const A* rstd, const A* scale, A* sums, A* dscale,
                                                A* dshift, std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, x += n, dy += n) {
      const A m = mean[r];
      const A s = rstd[r];
      A a = 0;
      A b = 0;
      FOURFOLD_SUM
      for (std::int64_t i = 0; i < n; ++i) {
        const A d = widen(dy[i]);
        const A normal = (widen(x[i]) - m) * s;
        const A g = d * scale[i];
        a += g;
        b += g * normal;
        dscale[i] += d * normal;
        dshift[i] += d;
      }
      sums[r] = a;
      sums[rows + r] = b;
    }
  }
};

template <class T>
struct BackwardApply {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* dy, const T* x, const A* mean,
                                                const A* rstd, const A* scale, const A* sums,
                                                A width, T* dx, std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, x += n, dy += n, dx += n) {
      const A m = mean[r];
      const A s = rstd[r];
      const A a = sums[r] / width;
      const A b = sums[rows + r] / width;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) {
        const A normal = (widen(x[i]) - m) * s;
        dx[i] = narrow<T>(s * (widen(dy[i]) * scale[i] - a - normal * b));
      }
    }
  }
};

template <class T>
struct Whole {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* x, const A* scale, const A* shift,
                                                A epsilon, A* stats, T* y, std::int64_t rows,
                                                std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
      A* rstd = stats + rows + r;
      Statistics<T>::run(x, stats + r, rstd, 1, n);
      *rstd = 1 / std::sqrt(*rstd / static_cast<A>(n) + epsilon);
      Apply<T>::run(x, stats + r, rstd, scale, shift, y, 1, n);
    }
  }
};

template <class T>
struct BackwardWhole {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* dy, const T* x, const A* stats,
                                                const A* scale, A* dscale, A* dshift, T* dx,
                                                std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, x += n, dy += n, dx += n) {
      const A* mean = stats + r;
      const A* rstd = stats + rows + r;
      A sums[2];
      BackwardSums<T>::run(dy, x, mean, rstd, scale, sums, dscale, dshift, 1, n);
      BackwardApply<T>::run(dy, x, mean, rstd, scale, sums, static_cast<A>(n), dx, 1, n);
    }
  }
};

}  // namespace

void norm_statistics(const Tensor& x, Tensor& stats) {
  if (x.is_meta()) return;
  dispatch(x, [&]<class T>(T) {
    auto* out = elements<Wide<T>>(stats);
    run_vectorised<Statistics<T>>(elements<const T>(x), out, out + x.size(0), x.size(0), x.size(1));
  });
}

void norm_apply(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& scale,
                const Tensor& shift, Tensor& y) {
  if (x.is_meta()) return;
  dispatch(x, [&]<class T>(T) {
    using A = const Wide<T>;
    run_vectorised<Apply<T>>(elements<const T>(x), elements<A>(mean), elements<A>(rstd),
                             elements<A>(scale), elements<A>(shift), elements<T>(y), x.size(0),
                             x.size(1));
  });
}

void norm_backward_sums(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                        const Tensor& scale, Tensor& sums, Tensor& dscale, Tensor& dshift) {
  if (x.is_meta()) return;
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_vectorised<BackwardSums<T>>(elements<const T>(dy), elements<const T>(x),
                                    elements<const A>(mean), elements<const A>(rstd),
                                    elements<const A>(scale), elements<A>(sums),
                                    elements<A>(dscale), elements<A>(dshift), x.size(0), x.size(1));
  });
}

void norm_backward_apply(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                         const Tensor& scale, const Tensor& sums, std::int64_t width, Tensor& dx) {
  if (x.is_meta()) return;
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_vectorised<BackwardApply<T>>(elements<const T>(dy), elements<const T>(x),
                                     elements<const A>(mean), elements<const A>(rstd),
                                     elements<const A>(scale), elements<const A>(sums),
                                     static_cast<A>(width), elements<T>(dx), x.size(0), x.size(1));
  });
}

void norm_whole(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon,
                Tensor& stats, Tensor& y) {
  if (x.is_meta()) return;
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_vectorised<Whole<T>>(elements<const T>(x), elements<const A>(scale),
                             elements<const A>(shift), static_cast<A>(epsilon), elements<A>(stats),
                             elements<T>(y), x.size(0), x.size(1));
  });
}

void norm_backward_whole(const Tensor& dy, const Tensor& x, const Tensor& stats,
                         const Tensor& scale, Tensor& dscale, Tensor& dshift, Tensor& dx) {
  if (x.is_meta()) return;
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_vectorised<BackwardWhole<T>>(elements<const T>(dy), elements<const T>(x),
                                     elements<const A>(stats), elements<const A>(scale),
                                     elements<A>(dscale), elements<A>(dshift), elements<T>(dx),
                                     x.size(0), x.size(1));
  });
}

}  // namespace fourfold::tensor
