// Philox 4x32-10. The numbers are those of ATen's engine (at::Philox4_32).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/both/compiler.hpp"

namespace fourfold::kernels::both {

inline constexpr std::uint32_t kPhiloxFactor0 = 0xD2511F53U;
inline constexpr std::uint32_t kPhiloxFactor1 = 0xCD9E8D57U;
inline constexpr std::uint32_t kPhiloxStep0 = 0x9E3779B9U;
inline constexpr std::uint32_t kPhiloxStep1 = 0xBB67AE85U;
inline constexpr int kPhiloxRounds = 10;

struct Words {
  std::uint32_t word[4];
};

/// The four words of a counter of the stream (key, row).
FOURFOLD_BOTH Words philox(std::uint64_t key, std::uint64_t row, std::uint64_t counter) {
  auto c0 = static_cast<std::uint32_t>(counter);
  auto c1 = static_cast<std::uint32_t>(counter >> 32);
  auto c2 = static_cast<std::uint32_t>(row);
  auto c3 = static_cast<std::uint32_t>(row >> 32);
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round, k0 += kPhiloxStep0, k1 += kPhiloxStep1) {
    const std::uint64_t a = std::uint64_t{c0} * kPhiloxFactor0;
    const std::uint64_t b = std::uint64_t{c2} * kPhiloxFactor1;
    c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(b);
    c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(a);
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace fourfold::kernels::both
