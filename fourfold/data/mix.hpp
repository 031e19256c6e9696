// Mixing of whole numbers: what the order of samples, the split and the names in the cache rest on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fourfold::data {

/// A fixed bijection of 64 bits in which every bit of `x` reaches every bit of the result (the
/// finaliser of SplitMix64). Its values never change: files and the order of samples depend on it.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// 128 bits that stand for everything added, in this order. For names and for finding damage; no
/// protection against forgery.
class Digest {
 public:
  /// The text and its length, so that "ab", "c" and "a", "bc" differ.
  void add(std::string_view text);
  void add(std::uint64_t number);

  /// 32 hexadecimal digits.
  std::string text() const;

 private:
  std::uint64_t first_ = 0;
  std::uint64_t second_ = 0x6a09e667f3bcc908U;
};

}  // namespace fourfold::data
