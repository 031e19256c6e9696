// The words of many counters at once against ATen's engine, one number at a time.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/philox.hpp"

#include <vector>

#include <ATen/core/PhiloxRNGEngine.h>
#include <gtest/gtest.h>

#include "tests/support/every_way.hpp"

namespace fourfold::test {
namespace {

void compare() {
  // Counters that cross 32 bits, rows and keys that need 64, counts with and without a remainder.
  for (const std::uint64_t key : {std::uint64_t{0}, std::uint64_t{0xfedcba9876543210}}) {
    for (const std::uint64_t row : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{1} << 40}) {
      for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{0xfffffffd}}) {
        for (const std::int64_t counters : {1, 7, 8, 9, 37}) {
          std::vector<std::uint32_t> words(static_cast<std::size_t>(4 * counters));
          kernels::philox_words(words.data(), key, row, first, counters);
          at::Philox4_32 engine(key, row, first);
          for (std::size_t i = 0; i < words.size(); ++i) {
            ASSERT_EQ(words[i], engine()) << "word " << i << " of row " << row << " from " << first;
          }
        }
      }
    }
  }
}

TEST(Philox, GivesTheNumbersOfATenInBothWays) {
  in_every_way(Choice::kVectors, [](bool) { compare(); });
}

}  // namespace
}  // namespace fourfold::test
