// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/rotary.hpp"

#include <cmath>
#include <numbers>

#include <ATen/ops/empty.h>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/simd.hpp"

namespace fourfold::kernels {

namespace {

/// The angle from one position to the next, stretched as Llama 3 does it.
double scaled(double speed, const RotaryScaling& s) {
  const auto original = static_cast<double>(s.original_max_position_embeddings);
  const double wavelength = 2 * std::numbers::pi / speed;
  if (wavelength < original / s.high_freq_factor) return speed;
  if (wavelength > original / s.low_freq_factor) return speed / s.factor;
  const double smooth =
      (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * speed / s.factor + smooth * speed;
}

template <class A>
void fill_table(A* table, std::int64_t context, std::int64_t head_size, double theta,
                const std::optional<RotaryScaling>& scaling) {
  const std::int64_t pairs = head_size / 2;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double exponent = -2 * static_cast<double>(i) / static_cast<double>(head_size);
    double speed = std::pow(theta, exponent);
    if (scaling) speed = scaled(speed, *scaling);
    for (std::int64_t position = 0; position < context; ++position) {
      const double angle = static_cast<double>(position) * speed;
      table[position * head_size + i] = static_cast<A>(std::cos(angle));
      table[position * head_size + pairs + i] = static_cast<A>(std::sin(angle));
    }
  }
}

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

Tensor rotary_table(std::int64_t context, std::int64_t head_size, double theta,
                    const std::optional<RotaryScaling>& scaling, const at::TensorOptions& options) {
  FOURFOLD_CHECK(head_size % 2 == 0, "heads of ", head_size, " columns have no pairs");
  Tensor table = at::empty({context, head_size}, options);
  if (table.is_meta()) return table;
  if (table.scalar_type() == at::kDouble) {
    fill_table(elements<double>(table), context, head_size, theta, scaling);
  } else {
    fill_table(elements<float>(table), context, head_size, theta, scaling);
  }
  return table;
}

void rotate_heads(const Tensor& matrix, const RotaryHeads& which, const Tensor& table,
                  Rotation rotation) {
  FOURFOLD_CHECK(matrix.dim() == 2 && matrix.stride(1) == 1 && table.is_contiguous());
  FOURFOLD_CHECK_EQ(table.size(1), which.head_size);
  FOURFOLD_CHECK(which.positions > 0 && matrix.size(0) % which.positions == 0);
  FOURFOLD_CHECK(which.first_position + which.positions <= table.size(0), "the table ends at ",
                 table.size(0));
  if (which.heads == 0 || matrix.size(0) == 0) return;
  FOURFOLD_CHECK(
      which.columns.begin(which.heads - 1, which.head_size) + which.head_size <= matrix.size(1),
      "a head ends behind the columns");
  if (matrix.is_meta()) return;
  dispatch(matrix, [&]<class T>(T) {
    using A = Wide<T>;
    const A turn = rotation == Rotation::kForward ? A{1} : A{-1};
    run_vectorised<RotateAll<T>>(elements<T>(matrix), matrix.size(0), matrix.stride(0), which,
                                 elements<const A>(table), turn);
  });
}

}  // namespace fourfold::kernels
