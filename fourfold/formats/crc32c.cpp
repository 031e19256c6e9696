// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/crc32c.hpp"

#include <array>
#include <bit>
#include <cstddef>

namespace fourfold::formats {

namespace {

/// The effect of each value of a byte on the remainder.
constexpr std::array<std::uint32_t, 256> kTable = [] {
  constexpr std::uint32_t kReflectedPolynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? kReflectedPolynomial : 0);
    }
    table[byte] = remainder;
  }
  return table;
}();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t remainder = 0xFFFFFFFF;
  for (const char c : bytes) {
    const std::size_t index = (remainder ^ static_cast<unsigned char>(c)) & 0xFF;
    remainder = (remainder >> 8) ^ kTable[index];
  }
  return ~remainder;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8;
}

}  // namespace fourfold::formats
