// Mixing of whole numbers, for the order of samples, the split of the data and the names in the
// cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fourfold::data {

/// A fixed bijection of 64 bits in which every bit of `x` affects every bit of the result (the
/// finaliser of SplitMix64). Its values must never change, since files and the order of samples
/// depend on them.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// A digest of 128 bits of everything added, in order. It is for names and for finding damage, and
/// no protection against forgery.
class Digest {
 public:
  /// Adds the text and its length, so that "ab", "c" and "a", "bc" differ.
  void add(std::string_view text);
  void add(std::uint64_t number);

  /// 32 hexadecimal digits.
  std::string text() const;

 private:
  std::uint64_t first_ = 0;
  std::uint64_t second_ = 0x6a09e667f3bcc908U;
};

}  // namespace fourfold::data
