// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/cpu/simd.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

/// Rotates one head of one row. `turn` is 1 or -1.
template <class T>
struct Rotate {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(T* head, const A* angles, std::int64_t pairs,
                                                A turn) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < pairs; ++i) {
      const A c = angles[i];
      const A s = turn * angles[pairs + i];
      const A first = widen(head[i]);
      const A second = widen(head[pairs + i]);
      head[i] = narrow<T>(first * c - second * s);
      head[pairs + i] = narrow<T>(second * c + first * s);
    }
  }
};

template <class T>
struct RotateAll {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(T* matrix, std::int64_t rows, std::int64_t step,
                                                RotaryHeads which, const A* table, A turn) {
    const std::int64_t size = which.head_size;
    for (std::int64_t r = 0; r < rows; ++r, matrix += step) {
      const A* angles = table + (which.first_position + r % which.positions) * size;
      for (std::int64_t h = 0; h < which.heads; ++h) {
        Rotate<T>::run(matrix + which.columns.begin(h, size), angles, size / 2, turn);
      }
    }
  }
};

}  // namespace

void rotate_heads(const Tensor& matrix, const RotaryHeads& which, const Tensor& table,
                  Rotation rotation) {
  dispatch(matrix, [&]<class T>(T) {
    using A = Wide<T>;
    const A turn = rotation == Rotation::kForward ? A{1} : A{-1};
    run_vectorised<RotateAll<T>>(elements<T>(matrix), matrix.size(0), matrix.stride(0), which,
                                 elements<const A>(table), turn);
  });
}

}  // namespace fourfold::kernels::cpu
