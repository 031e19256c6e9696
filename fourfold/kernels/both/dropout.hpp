// Dropout as a function of key and place (kernels/random.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/both/philox.hpp"

namespace fourfold::kernels::both {

/// The place of a matrix, and what becomes of its elements. Four columns share a counter, and a
/// thread has one counter at a time.
template <class T>
struct Dropout {
  std::uint64_t key;
  std::int64_t first_row;
  std::int64_t first_column;
  std::int64_t rows;
  std::int64_t columns;
  std::uint32_t threshold;
  Wide<T> kept;

  /// Counters of a row. The first and the last may have columns outside of the matrix.
  constexpr std::int64_t counters() const {
    return (first_column + columns - 1) / 4 - first_column / 4 + 1;
  }
  constexpr std::int64_t all_counters() const { return columns == 0 ? 0 : rows * counters(); }

  /// Calls put(element, factor) for the elements of counter i.
  template <class Put>
  FOURFOLD_BOTH void each(std::int64_t i, const Put& put) const {
    const std::int64_t r = i / counters();
    const std::int64_t counter = first_column / 4 + i % counters();
    const Words words =
        philox(key, static_cast<std::uint64_t>(first_row + r), static_cast<std::uint64_t>(counter));
    for (int j = 0; j < 4; ++j) {
      const std::int64_t c = 4 * counter + j - first_column;
      if (c < 0 || c >= columns) continue;
      put(r * columns + c, words.word[j] < threshold ? Wide<T>{} : kept);
    }
  }
};

template <class T>
struct FillMask {
  Dropout<T> dropout;
  T* mask;

  constexpr std::int64_t count() const { return dropout.all_counters(); }
  FOURFOLD_BOTH void operator()(std::int64_t i) const {
    dropout.each(i, [&](std::int64_t at, Wide<T> factor) { mask[at] = narrow<T>(factor); });
  }
};

template <class T>
struct ApplyDropout {
  Dropout<T> dropout;
  const T* in;
  T* out;

  constexpr std::int64_t count() const { return dropout.all_counters(); }
  FOURFOLD_BOTH void operator()(std::int64_t i) const {
    dropout.each(
        i, [&](std::int64_t at, Wide<T> factor) { out[at] = narrow<T>(widen(in[at]) * factor); });
  }
};

}  // namespace fourfold::kernels::both
