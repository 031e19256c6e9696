// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/channels.hpp"

#include <vector>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/exponential.hpp"
#include "fourfold/kernels/simd.hpp"

namespace fourfold::kernels {

namespace {

/// Of a sample: pixels × channels, and numbers for each channel. Sums grow pixel by pixel, so that
/// their order is the same for all vectors.
struct Extent {
  std::int64_t samples;
  std::int64_t pixels;
  std::int64_t channels;
};

template <class T>
struct Moments {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* x, A* mean, A* squares, Extent e) {
    const std::int64_t n = e.channels;
    for (std::int64_t s = 0; s < e.samples; ++s, x += e.pixels * n, mean += n, squares += n) {
      for (std::int64_t c = 0; c < n; ++c) mean[c] = squares[c] = 0;
      for (std::int64_t p = 0; p < e.pixels; ++p) {
#pragma GCC ivdep
        for (std::int64_t c = 0; c < n; ++c) mean[c] += widen(x[p * n + c]);
      }
      for (std::int64_t c = 0; c < n; ++c) mean[c] /= static_cast<A>(e.pixels);
      for (std::int64_t p = 0; p < e.pixels; ++p) {
#pragma GCC ivdep
        for (std::int64_t c = 0; c < n; ++c) {
          const A d = widen(x[p * n + c]) - mean[c];
          squares[c] += d * d;
        }
      }
    }
  }
};

/// The derivative of SiLU at z, or 1.
template <bool kSilu, class A>
[[gnu::always_inline]] inline A slope(A z) {
  if constexpr (!kSilu) return 1;
  const A s = sigmoid(z);
  return s * (1 + z * (1 - s));
}

template <class T, bool kSilu>
struct Scale {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* x, const A* scale, const A* shift, T* y,
                                                Extent e) {
    const std::int64_t n = e.channels;
    for (std::int64_t s = 0; s < e.samples; ++s, scale += n, shift += n) {
      for (std::int64_t p = 0; p < e.pixels; ++p, x += n, y += n) {
#pragma GCC ivdep
        for (std::int64_t c = 0; c < n; ++c) {
          const A z = widen(x[c]) * scale[c] + shift[c];
          y[c] = narrow<T>(kSilu ? z * sigmoid(z) : z);
        }
      }
    }
  }
};

template <class T, bool kSilu>
struct Sums {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* dy, const T* x, const A* scale,
                                                const A* shift, const A* centre, A* sums,
                                                A* products, Extent e) {
    const std::int64_t n = e.channels;
    for (std::int64_t s = 0; s < e.samples; ++s) {
      for (std::int64_t c = 0; c < n; ++c) sums[c] = products[c] = 0;
      for (std::int64_t p = 0; p < e.pixels; ++p, x += n, dy += n) {
#pragma GCC ivdep
        for (std::int64_t c = 0; c < n; ++c) {
          const A value = widen(x[c]);
          const A d = widen(dy[c]) * slope<kSilu>(value * scale[c] + shift[c]);
          sums[c] += d;
          products[c] += d * (value - centre[c]);
        }
      }
      scale += n;
      shift += n;
      centre += n;
      sums += n;
      products += n;
    }
  }
};

template <class T, bool kSilu>
struct Backward {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* dy, const T* x, const A* scale,
                                                const A* shift, const A* centre, const A* a,
                                                const A* b, const A* c, T* dx, Extent e) {
    const std::int64_t n = e.channels;
    for (std::int64_t s = 0; s < e.samples; ++s) {
      for (std::int64_t p = 0; p < e.pixels; ++p, x += n, dy += n, dx += n) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) {
          const A value = widen(x[i]);
          const A d = widen(dy[i]) * slope<kSilu>(value * scale[i] + shift[i]);
          dx[i] = narrow<T>(d * a[i] + (value - centre[i]) * b[i] + c[i]);
        }
      }
      scale += n;
      shift += n;
      centre += n;
      a += n;
      b += n;
      c += n;
    }
  }
};

Extent extent_of(const Tensor& x, const std::vector<Tensor>& numbers) {
  FOURFOLD_CHECK(x.dim() == 2 && x.is_contiguous());
  const Tensor& first = numbers.front();
  FOURFOLD_CHECK(first.size(1) == x.size(1) && x.size(0) % first.size(0) == 0);
  for (const Tensor& one : numbers) {
    FOURFOLD_CHECK(one.is_contiguous() && one.sizes() == first.sizes());
  }
  return {first.size(0), x.size(0) / first.size(0), x.size(1)};
}

}  // namespace

void channel_moments(const Tensor& x, Tensor& mean, Tensor& squares) {
  const Extent extent = extent_of(x, {mean, squares});
  if (x.is_meta()) return;
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_vectorised<Moments<T>>(elements<const T>(x), elements<A>(mean), elements<A>(squares),
                               extent);
  });
}

void scale_channels(const Tensor& x, const ChannelScale& by, Tensor& y) {
  const Extent extent = extent_of(x, {by.scale, by.shift});
  FOURFOLD_CHECK(y.is_contiguous() && y.sizes() == x.sizes());
  if (x.is_meta()) return;
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    const auto run = [&]<class Body>(Body) {
      run_vectorised<Body>(elements<const T>(x), elements<const A>(by.scale),
                           elements<const A>(by.shift), elements<T>(y), extent);
    };
    by.silu ? run(Scale<T, true>{}) : run(Scale<T, false>{});
  });
}

void channel_sums(const Tensor& dy, const Tensor& x, const ChannelScale& by, const Tensor& centre,
                  Tensor& sums, Tensor& products) {
  const Extent extent = extent_of(x, {by.scale, by.shift, centre, sums, products});
  FOURFOLD_CHECK(dy.is_contiguous() && dy.sizes() == x.sizes());
  if (x.is_meta()) return;
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    const auto run = [&]<class Body>(Body) {
      run_vectorised<Body>(elements<const T>(dy), elements<const T>(x), elements<const A>(by.scale),
                           elements<const A>(by.shift), elements<const A>(centre),
                           elements<A>(sums), elements<A>(products), extent);
    };
    by.silu ? run(Sums<T, true>{}) : run(Sums<T, false>{});
  });
}

void scale_channels_backward(const Tensor& dy, const Tensor& x, const ChannelScale& by,
                             const Tensor& centre, const ChannelGradient& gradient, Tensor& dx) {
  const Extent extent =
      extent_of(x, {by.scale, by.shift, centre, gradient.a, gradient.b, gradient.c});
  FOURFOLD_CHECK(dy.is_contiguous() && dy.sizes() == x.sizes() && dx.is_contiguous() &&
                 dx.sizes() == x.sizes());
  if (x.is_meta()) return;
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    const auto run = [&]<class Body>(Body) {
      run_vectorised<Body>(elements<const T>(dy), elements<const T>(x), elements<const A>(by.scale),
                           elements<const A>(by.shift), elements<const A>(centre),
                           elements<const A>(gradient.a), elements<const A>(gradient.b),
                           elements<const A>(gradient.c), elements<T>(dx), extent);
    };
    by.silu ? run(Backward<T, true>{}) : run(Backward<T, false>{});
  });
}

}  // namespace fourfold::kernels
