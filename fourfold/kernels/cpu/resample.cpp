// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/cpu/simd.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

/// Lines of small images, over all samples, and what a line has.
struct Lines {
  std::int64_t count;
  std::int64_t width;
  std::int64_t channels;
};

/// Large images have two lines for each of the small ones, and lines of twice as many pixels.
template <class T>
struct Spread {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* small, A factor, T* large, Lines lines) {
    const std::int64_t n = lines.channels;
    const std::int64_t line = 2 * lines.width * n;
    for (std::int64_t i = 0; i < lines.count; ++i, large += line) {
      for (std::int64_t j = 0; j < lines.width; ++j, small += n, large += 2 * n) {
#pragma GCC ivdep
        for (std::int64_t c = 0; c < n; ++c) {
          const T value = narrow<T>(widen(small[c]) * factor);
          large[c] = value;
          large[n + c] = value;
          large[line + c] = value;
          large[line + n + c] = value;
        }
      }
    }
  }
};

template <class T>
struct Collect {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* large, A factor, T* small, Lines lines) {
    const std::int64_t n = lines.channels;
    const std::int64_t line = 2 * lines.width * n;
    for (std::int64_t i = 0; i < lines.count; ++i, large += line) {
      for (std::int64_t j = 0; j < lines.width; ++j, small += n, large += 2 * n) {
#pragma GCC ivdep
        for (std::int64_t c = 0; c < n; ++c) {
          const A above = widen(large[c]) + widen(large[n + c]);
          const A below = widen(large[line + c]) + widen(large[line + n + c]);
          small[c] = narrow<T>((above + below) * factor);
        }
      }
    }
  }
};

Lines lines_of(const Tensor& small, std::int64_t width) {
  return {small.size(0) / width, width, small.size(1)};
}

}  // namespace

void spread_pixels(const Tensor& small, std::int64_t /*height*/, std::int64_t width, double factor,
                   Tensor& large) {
  const Lines lines = lines_of(small, width);
  dispatch(small, [&]<class T>(T) {
    run_vectorised<Spread<T>>(elements<const T>(small), static_cast<Wide<T>>(factor),
                              elements<T>(large), lines);
  });
}

void collect_pixels(const Tensor& large, std::int64_t /*height*/, std::int64_t width, double factor,
                    Tensor& small) {
  const Lines lines = lines_of(small, width);
  dispatch(small, [&]<class T>(T) {
    run_vectorised<Collect<T>>(elements<const T>(large), static_cast<Wide<T>>(factor),
                               elements<T>(small), lines);
  });
}

}  // namespace fourfold::kernels::cpu
