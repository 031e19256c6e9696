// The maximum of a row in lanes against that of the standard library.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/cpu/maximum.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "fourfold/kernels/cpu/simd.hpp"

#include "tests/kernels/support.hpp"

namespace fourfold::test {
namespace {

template <class A>
struct Largest {
  [[gnu::always_inline]] static inline void run(const A* values, std::int64_t n, A start,
                                                A* result) {
    *result = kernels::cpu::largest_of(values, n, start);
  }
};

template <class A>
A largest(const std::vector<A>& values, A start) {
  A result = 0;
  kernels::cpu::run_vectorised<Largest<A>>(values.data(), static_cast<std::int64_t>(values.size()),
                                           start, &result);
  return result;
}

/// Wherever it is, also in the remainder behind the last lanes.
template <class A>
void find_everywhere() {
  for (const std::size_t n : {1U, 2U, 31U, 32U, 33U, 64U, 97U}) {
    for (std::size_t at = 0; at < n; ++at) {
      std::vector<A> values(n);
      for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<A>(std::sin(i)) - 2;
      values[at] = A(-0.5);
      EXPECT_EQ(largest(values, A(-INFINITY)), A(-0.5)) << at << " of " << n;
      EXPECT_EQ(largest(values, A(3)), A(3)) << at << " of " << n;
      values[at] = A(NAN);
      const bool others = n > 1;
      EXPECT_EQ(std::isfinite(largest(values, A(-INFINITY))), others) << "a NaN is skipped";
    }
  }
  EXPECT_EQ(largest(std::vector<A>(), A(-INFINITY)), A(-INFINITY));
}

TEST(Maximum, IsFoundEverywhere) {
  in_every_way(Choice::kVectors, [](int) {
    find_everywhere<double>();
    find_everywhere<float>();
  });
}

}  // namespace
}  // namespace fourfold::test
