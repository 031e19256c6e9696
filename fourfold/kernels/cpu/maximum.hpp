// The maximum of a row, for loops that the compiler turns into vectors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/elements.hpp"

namespace fourfold::kernels::cpu {

/// The largest of `start` and `n` values; a NaN among the values is skipped. A plain loop does not
/// become vectors, because the compiler must keep the order in which it would meet a NaN. Here each
/// of many lanes has a maximum of its own.
template <class T>
[[gnu::always_inline]] inline Wide<T> largest_of(const T* values, std::int64_t n, Wide<T> start) {
  using A = Wide<T>;
  constexpr std::int64_t kLanes = 32;
  A lanes[kLanes];
  for (A& lane : lanes) lane = start;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const A value = widen(values[i + j]);
      lanes[j] = lanes[j] < value ? value : lanes[j];
    }
  }
  A largest = start;
  for (; i < n; ++i) {
    const A value = widen(values[i]);
    largest = largest < value ? value : largest;
  }
  for (const A lane : lanes) largest = largest < lane ? lane : largest;
  return largest;
}

}  // namespace fourfold::kernels::cpu
