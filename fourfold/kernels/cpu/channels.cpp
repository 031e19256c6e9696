// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/cpu/exponential.hpp"
#include "fourfold/kernels/cpu/simd.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

/// Of a sample: pixels × channels, and numbers for each channel. Sums grow line by line, so that
/// their order is the same for all vectors. Loops over few channels end before they are at full
/// speed, so several pixels are a line of the loop where they are narrow.
struct Extent {
  std::int64_t samples;
  std::int64_t pixels;
  std::int64_t channels;
  std::int64_t pixels_of_line = 1;

  std::int64_t lines() const { return pixels / pixels_of_line; }
  std::int64_t width() const { return channels * pixels_of_line; }
};

/// Lines of several pixels are less wide than this.
constexpr std::int64_t kWidestLine = 512;

/// The numbers of the channels, for every pixel of a line.
template <class A>
class Repeated {
 public:
  [[gnu::always_inline]] inline Repeated(const A* numbers, const Extent& e) : line_(numbers) {
    if (e.pixels_of_line == 1) return;
    for (std::int64_t i = 0; i < e.width(); i += e.channels) {
      for (std::int64_t c = 0; c < e.channels; ++c) copies_[i + c] = numbers[c];
    }
    line_ = copies_;
  }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;
  [[gnu::always_inline]] inline const A* line() const { return line_; }

 private:
  const A* line_;
  A copies_[kWidestLine];
};

/// Sums of the channels, which grow in every pixel of a line.
template <class A>
class LineSums {
 public:
  [[gnu::always_inline]] inline LineSums(A* sums, const Extent& e)
      : sums_(sums), line_(e.pixels_of_line == 1 ? sums : parts_) {
    for (std::int64_t i = 0; i < e.width(); ++i) line_[i] = 0;
  }
  LineSums(const LineSums&) = delete;
  LineSums& operator=(const LineSums&) = delete;
  [[gnu::always_inline]] inline A* line() { return line_; }
  /// The sums of all pixels of the line.
  [[gnu::always_inline]] inline void end(const Extent& e) {
    if (e.pixels_of_line == 1) return;
    for (std::int64_t c = 0; c < e.channels; ++c) sums_[c] = parts_[c];
    for (std::int64_t i = e.channels; i < e.width(); i += e.channels) {
      for (std::int64_t c = 0; c < e.channels; ++c) sums_[c] += parts_[i + c];
    }
  }

 private:
  A* sums_;
  A* line_;
  A parts_[kWidestLine];
};

template <class T>
struct Moments {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* x, A* mean, A* squares, Extent e) {
    const std::int64_t n = e.width();
    for (std::int64_t s = 0; s < e.samples; ++s) {
      LineSums<A> of_values(mean, e);
      A* sum = of_values.line();
      for (std::int64_t p = 0; p < e.lines(); ++p) {
#pragma GCC ivdep
        for (std::int64_t c = 0; c < n; ++c) sum[c] += widen(x[p * n + c]);
      }
      of_values.end(e);
      for (std::int64_t c = 0; c < e.channels; ++c) mean[c] /= static_cast<A>(e.pixels);
      const Repeated<A> means(mean, e);
      const A* centre = means.line();
      LineSums<A> of_squares(squares, e);
      A* square = of_squares.line();
      for (std::int64_t p = 0; p < e.lines(); ++p) {
#pragma GCC ivdep
        for (std::int64_t c = 0; c < n; ++c) {
          const A d = widen(x[p * n + c]) - centre[c];
          square[c] += d * d;
        }
      }
      of_squares.end(e);
      x += e.pixels * e.channels;
      mean += e.channels;
      squares += e.channels;
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
    const std::int64_t n = e.width();
    for (std::int64_t s = 0; s < e.samples; ++s, scale += e.channels, shift += e.channels) {
      const Repeated<A> scales(scale, e);
      const Repeated<A> shifts(shift, e);
      const A* factor = scales.line();
      const A* more = shifts.line();
      for (std::int64_t p = 0; p < e.lines(); ++p, x += n, y += n) {
#pragma GCC ivdep
        for (std::int64_t c = 0; c < n; ++c) {
          const A z = widen(x[c]) * factor[c] + more[c];
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
    const std::int64_t n = e.width();
    for (std::int64_t s = 0; s < e.samples; ++s) {
      const Repeated<A> scales(scale, e);
      const Repeated<A> shifts(shift, e);
      const Repeated<A> centres(centre, e);
      const A* factor = scales.line();
      const A* more = shifts.line();
      const A* middle = centres.line();
      LineSums<A> of_gradients(sums, e);
      LineSums<A> of_products(products, e);
      A* sum = of_gradients.line();
      A* product = of_products.line();
      for (std::int64_t p = 0; p < e.lines(); ++p, x += n, dy += n) {
#pragma GCC ivdep
        for (std::int64_t c = 0; c < n; ++c) {
          const A value = widen(x[c]);
          const A d = widen(dy[c]) * slope<kSilu>(value * factor[c] + more[c]);
          sum[c] += d;
          product[c] += d * (value - middle[c]);
        }
      }
      of_gradients.end(e);
      of_products.end(e);
      scale += e.channels;
      shift += e.channels;
      centre += e.channels;
      sums += e.channels;
      products += e.channels;
    }
  }
};

template <class T, bool kSilu>
struct Backward {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* dy, const T* x, const A* scale,
                                                const A* shift, const A* centre, const A* a,
                                                const A* b, const A* c, T* dx, Extent e) {
    const std::int64_t n = e.width();
    for (std::int64_t s = 0; s < e.samples; ++s) {
      const Repeated<A> scales(scale, e);
      const Repeated<A> shifts(shift, e);
      const Repeated<A> centres(centre, e);
      const Repeated<A> of_gradient(a, e);
      const Repeated<A> of_value(b, e);
      const Repeated<A> constant(c, e);
      const A* factor = scales.line();
      const A* more = shifts.line();
      const A* middle = centres.line();
      const A* first = of_gradient.line();
      const A* second = of_value.line();
      const A* third = constant.line();
      for (std::int64_t p = 0; p < e.lines(); ++p, x += n, dy += n, dx += n) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) {
          const A value = widen(x[i]);
          const A d = widen(dy[i]) * slope<kSilu>(value * factor[i] + more[i]);
          dx[i] = narrow<T>(d * first[i] + (value - middle[i]) * second[i] + third[i]);
        }
      }
      scale += e.channels;
      shift += e.channels;
      centre += e.channels;
      a += e.channels;
      b += e.channels;
      c += e.channels;
    }
  }
};

Extent extent_of(const Tensor& x, const Tensor& numbers) {
  Extent extent{numbers.size(0), x.size(0) / numbers.size(0), x.size(1)};
  while (2 * extent.width() <= kWidestLine && extent.lines() % 2 == 0) extent.pixels_of_line *= 2;
  return extent;
}

}  // namespace

void channel_moments(const Tensor& x, Tensor& mean, Tensor& squares) {
  const Extent extent = extent_of(x, mean);
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_vectorised<Moments<T>>(elements<const T>(x), elements<A>(mean), elements<A>(squares),
                               extent);
  });
}

void scale_channels(const Tensor& x, const ChannelScale& by, Tensor& y) {
  const Extent extent = extent_of(x, by.scale);
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
  const Extent extent = extent_of(x, by.scale);
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
  const Extent extent = extent_of(x, by.scale);
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

}  // namespace fourfold::kernels::cpu
