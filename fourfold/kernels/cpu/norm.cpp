// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "fourfold/kernels/cpu/simd.hpp"
#include "fourfold/kernels/functions.hpp"

// The sums may be formed in the order that suits the vectors. For a given length the order is
// always the same.
#define FOURFOLD_SUM _Pragma("omp simd reduction(+ : a, b)")

namespace fourfold::kernels::cpu {

namespace {

/// RMS norm is layer norm without mean and shift. Pointers to these are null there, and so is the
/// pointer to the first of the two sums of the backward pass.
enum class Kind { kLayer, kRms };

template <class T, Kind kKind>
struct Statistics {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* x, A* mean, A* squares, std::int64_t rows,
                                                std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, x += n) {
      A a = 0;
      A b = 0;
      A centre = 0;
      if constexpr (kKind == Kind::kLayer) {
        FOURFOLD_SUM
        for (std::int64_t i = 0; i < n; ++i) a += widen(x[i]);
        centre = a / static_cast<A>(n);
        mean[r] = centre;
        a = 0;
      }
      FOURFOLD_SUM
      for (std::int64_t i = 0; i < n; ++i) {
        const A d = widen(x[i]) - centre;
        b += d * d;
      }
      squares[r] = b;
    }
  }
};

template <class T, Kind kKind>
struct Apply {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* x, const A* mean, const A* rstd,
                                                const A* scale, const A* shift, T* y,
                                                std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
      const A s = rstd[r];
      if constexpr (kKind == Kind::kLayer) {
        const A m = mean[r];
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) {
          y[i] = narrow<T>((widen(x[i]) - m) * s * scale[i] + shift[i]);
        }
      } else {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) y[i] = narrow<T>(widen(x[i]) * s * scale[i]);
      }
    }
  }
};

template <class T, Kind kKind>
struct BackwardSums {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* dy, const T* x, const A* mean,
                                                const A* rstd, const A* scale, A* first, A* second,
                                                A* dscale, A* dshift, std::int64_t rows,
                                                std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, x += n, dy += n) {
      const A m = kKind == Kind::kLayer ? mean[r] : A{};
      const A s = rstd[r];
      A a = 0;
      A b = 0;
      FOURFOLD_SUM
      for (std::int64_t i = 0; i < n; ++i) {
        const A d = widen(dy[i]);
        const A normal = (widen(x[i]) - m) * s;
        const A g = d * scale[i];
        b += g * normal;
        dscale[i] += d * normal;
        if constexpr (kKind == Kind::kLayer) {
          a += g;
          dshift[i] += d;
        }
      }
      if constexpr (kKind == Kind::kLayer) first[r] = a;
      second[r] = b;
    }
  }
};

template <class T, Kind kKind>
struct BackwardApply {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* dy, const T* x, const A* mean,
                                                const A* rstd, const A* scale, const A* first,
                                                const A* second, A width, T* dx, std::int64_t rows,
                                                std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, x += n, dy += n, dx += n) {
      const A m = kKind == Kind::kLayer ? mean[r] : A{};
      const A s = rstd[r];
      const A a = kKind == Kind::kLayer ? first[r] / width : A{};
      const A b = second[r] / width;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) {
        const A normal = (widen(x[i]) - m) * s;
        dx[i] = narrow<T>(s * (widen(dy[i]) * scale[i] - a - normal * b));
      }
    }
  }
};

/// rstd[r] = 1 / the root of the mean square. `squares` may be rstd.
template <class A>
[[gnu::always_inline]] inline void set_rstd(const A* squares, A width, A epsilon, A* rstd) {
  *rstd = 1 / std::sqrt(*squares / width + epsilon);
}

template <class T, Kind kKind>
struct Whole {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* x, const A* scale, const A* shift,
                                                A epsilon, A* mean, A* rstd, T* y,
                                                std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, x += n, y += n, ++rstd) {
      Statistics<T, kKind>::run(x, mean, rstd, 1, n);
      set_rstd(rstd, static_cast<A>(n), epsilon, rstd);
      Apply<T, kKind>::run(x, mean, rstd, scale, shift, y, 1, n);
      if constexpr (kKind == Kind::kLayer) ++mean;
    }
  }
};

template <class T, Kind kKind>
struct BackwardWhole {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* dy, const T* x, const A* mean,
                                                const A* rstd, const A* scale, A* dscale, A* dshift,
                                                T* dx, std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, x += n, dy += n, dx += n, ++rstd) {
      A first = 0;
      A second = 0;
      BackwardSums<T, kKind>::run(dy, x, mean, rstd, scale, &first, &second, dscale, dshift, 1, n);
      BackwardApply<T, kKind>::run(dy, x, mean, rstd, scale, &first, &second, static_cast<A>(n), dx,
                                   1, n);
      if constexpr (kKind == Kind::kLayer) ++mean;
    }
  }
};

/// With the sums of squares of whole rows, of which n of `width` columns are here.
template <class T>
struct ApplyRms {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* x, const A* squares, A width, A epsilon,
                                                const A* scale, A* rstd, T* y, std::int64_t rows,
                                                std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r) set_rstd(squares + r, width, epsilon, rstd + r);
    Apply<T, Kind::kRms>::run(x, nullptr, rstd, scale, nullptr, y, rows, n);
  }
};

}  // namespace

// --- layer norm

void norm_statistics(const Tensor& x, Tensor& stats) {
  dispatch(x, [&]<class T>(T) {
    auto* out = elements<Wide<T>>(stats);
    run_vectorised<Statistics<T, Kind::kLayer>>(elements<const T>(x), out, out + x.size(0),
                                                x.size(0), x.size(1));
  });
}

void norm_apply(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& scale,
                const Tensor& shift, Tensor& y) {
  dispatch(x, [&]<class T>(T) {
    using A = const Wide<T>;
    run_vectorised<Apply<T, Kind::kLayer>>(
        elements<const T>(x), elements<A>(mean), elements<A>(rstd), elements<A>(scale),
        elements<A>(shift), elements<T>(y), x.size(0), x.size(1));
  });
}

void norm_backward_sums(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                        const Tensor& scale, Tensor& sums, Tensor& dscale, Tensor& dshift) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    auto* first = elements<A>(sums);
    run_vectorised<BackwardSums<T, Kind::kLayer>>(
        elements<const T>(dy), elements<const T>(x), elements<const A>(mean),
        elements<const A>(rstd), elements<const A>(scale), first, first + x.size(0),
        elements<A>(dscale), elements<A>(dshift), x.size(0), x.size(1));
  });
}

void norm_backward_apply(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                         const Tensor& scale, const Tensor& sums, std::int64_t width, Tensor& dx) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    const auto* first = elements<const A>(sums);
    run_vectorised<BackwardApply<T, Kind::kLayer>>(
        elements<const T>(dy), elements<const T>(x), elements<const A>(mean),
        elements<const A>(rstd), elements<const A>(scale), first, first + x.size(0),
        static_cast<A>(width), elements<T>(dx), x.size(0), x.size(1));
  });
}

void norm_whole(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon,
                Tensor& stats, Tensor& y) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    auto* mean = elements<A>(stats);
    run_vectorised<Whole<T, Kind::kLayer>>(elements<const T>(x), elements<const A>(scale),
                                           elements<const A>(shift), static_cast<A>(epsilon), mean,
                                           mean + x.size(0), elements<T>(y), x.size(0), x.size(1));
  });
}

void norm_backward_whole(const Tensor& dy, const Tensor& x, const Tensor& stats,
                         const Tensor& scale, Tensor& dscale, Tensor& dshift, Tensor& dx) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    const auto* mean = elements<const A>(stats);
    run_vectorised<BackwardWhole<T, Kind::kLayer>>(elements<const T>(dy), elements<const T>(x),
                                                   mean, mean + x.size(0), elements<const A>(scale),
                                                   elements<A>(dscale), elements<A>(dshift),
                                                   elements<T>(dx), x.size(0), x.size(1));
  });
}

// --- RMS norm

namespace {

/// What layer norm has and RMS norm has not.
template <class A>
constexpr A* kNone = nullptr;

}  // namespace

void rms_statistics(const Tensor& x, Tensor& squares) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_vectorised<Statistics<T, Kind::kRms>>(elements<const T>(x), kNone<A>, elements<A>(squares),
                                              x.size(0), x.size(1));
  });
}

void rms_apply(const Tensor& x, const Tensor& squares, std::int64_t width, double epsilon,
               const Tensor& scale, Tensor& rstd, Tensor& y) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_vectorised<ApplyRms<T>>(elements<const T>(x), elements<const A>(squares),
                                static_cast<A>(width), static_cast<A>(epsilon),
                                elements<const A>(scale), elements<A>(rstd), elements<T>(y),
                                x.size(0), x.size(1));
  });
}

void rms_backward_sums(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                       Tensor& sums, Tensor& dscale) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_vectorised<BackwardSums<T, Kind::kRms>>(
        elements<const T>(dy), elements<const T>(x), kNone<const A>, elements<const A>(rstd),
        elements<const A>(scale), kNone<A>, elements<A>(sums), elements<A>(dscale), kNone<A>,
        x.size(0), x.size(1));
  });
}

void rms_backward_apply(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                        const Tensor& sums, std::int64_t width, Tensor& dx) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_vectorised<BackwardApply<T, Kind::kRms>>(
        elements<const T>(dy), elements<const T>(x), kNone<const A>, elements<const A>(rstd),
        elements<const A>(scale), kNone<const A>, elements<const A>(sums), static_cast<A>(width),
        elements<T>(dx), x.size(0), x.size(1));
  });
}

void rms_whole(const Tensor& x, const Tensor& scale, double epsilon, Tensor& rstd, Tensor& y) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_vectorised<Whole<T, Kind::kRms>>(elements<const T>(x), elements<const A>(scale),
                                         kNone<const A>, static_cast<A>(epsilon), kNone<A>,
                                         elements<A>(rstd), elements<T>(y), x.size(0), x.size(1));
  });
}

void rms_backward_whole(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                        Tensor& dscale, Tensor& dx) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_vectorised<BackwardWhole<T, Kind::kRms>>(elements<const T>(dy), elements<const T>(x),
                                                 kNone<const A>, elements<const A>(rstd),
                                                 elements<const A>(scale), elements<A>(dscale),
                                                 kNone<A>, elements<T>(dx), x.size(0), x.size(1));
  });
}

}  // namespace fourfold::kernels::cpu
