// The type bf16, for code that must not depend on libtorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace fourfold {

/// The upper half of a float. Arithmetic is done in float and rounded to nearest, ties to even.
struct BFloat16 {
  std::uint16_t bits = 0;
  bool operator==(const BFloat16&) const = default;
};

constexpr float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

constexpr BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // A NaN whose payload lies in the lower half must not be rounded to infinity.
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  return {static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40U : rounded >> 16)};
}

}  // namespace fourfold
