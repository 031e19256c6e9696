// exp and the logistic function for loops that the compiler turns into vectors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace fourfold::kernels::cpu {

/// The error is at most 2 units in the last place for x <= 0. Values below about -87 give almost 0,
/// and NaN stays NaN. x is split into n·ln 2 + r with |r| <= ln 2 / 2, and a Taylor series in r is
/// used.
[[gnu::always_inline]] inline float exponential(float x) {
  constexpr float kLog2e = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kMagic = 12582912.F;  // 1.5 * 2^23: adding it rounds to a whole number
  const float bounded = x < -87.F ? -87.F : x;
  const float whole = (bounded * kLog2e + kMagic) - kMagic;
  const float r = (bounded - whole * kLn2High) - whole * kLn2Low;
  float sum = 1.F / 5040.F;
  sum = sum * r + 1.F / 720.F;
  sum = sum * r + 1.F / 120.F;
  sum = sum * r + 1.F / 24.F;
  sum = sum * r + 1.F / 6.F;
  sum = sum * r + 0.5F;
  sum = sum * r * r + r + 1.F;
  const auto power = std::bit_cast<float>((static_cast<std::int32_t>(whole) + 127) << 23);
  return sum * power;
}

[[gnu::always_inline]] inline double exponential(double x) {
  return std::exp(x);
}

/// 1 / (1 + exp(-x)), computed from exp(-|x|), which does not overflow.
template <class A>
[[gnu::always_inline]] inline A sigmoid(A x) {
  const A e = exponential(-std::abs(x));
  const A inverse = 1 / (1 + e);
  return x < 0 ? e * inverse : inverse;
}

}  // namespace fourfold::kernels::cpu
