// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/permutation.hpp"

#include <bit>

#include "fourfold/base/check.hpp"
#include "fourfold/data/mix.hpp"

namespace fourfold::data {

namespace {

constexpr std::uint64_t kRounds = 8;

/// A Feistel network: a bijection of numbers of 2 * `half` bits, whatever the round function is.
std::uint64_t scramble(std::uint64_t value, unsigned half, std::uint64_t key) {
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  std::uint64_t left = value >> half;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t next = left ^ (mix(mix(key + round) ^ right) & mask);
    left = right;
    right = next;
  }
  return (left << half) | right;
}

}  // namespace

std::int64_t permute(std::int64_t n, std::uint64_t seed, std::uint64_t epoch, std::int64_t index) {
  FOURFOLD_CHECK(index >= 0 && index < n, "index ", index, " of ", n);
  const auto count = static_cast<std::uint64_t>(n);
  const auto bits = static_cast<unsigned>(std::bit_width(count - 1));
  const unsigned half = bits < 2 ? 1 : (bits + 1) / 2;
  const std::uint64_t key = mix(mix(seed) + epoch);
  // The network permutes up to 4 n numbers. Results that are not below n are passed through it
  // again.
  std::uint64_t value = static_cast<std::uint64_t>(index);
  do {
    value = scramble(value, half, key);
  } while (value >= count);
  return static_cast<std::int64_t>(value);
}

}  // namespace fourfold::data
