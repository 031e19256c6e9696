// The exponential of loops against that of the standard library.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/cpu/exponential.hpp"

#include <bit>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"
#include "fourfold/kernels/cpu/simd.hpp"

#include "tests/support/every_way.hpp"

namespace fourfold::test {
namespace {

struct Exponentials {
  [[gnu::always_inline]] static inline void run(const float* in, float* out, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = kernels::cpu::exponential(in[i]);
  }
};

/// The largest distance from exp in units in the last place, of numbers from -87 to 0.
double worst_ulp(const std::vector<float>& in, const std::vector<float>& out) {
  double worst = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double right = std::exp(static_cast<double>(in[i]));
    const int exponent = std::max(std::ilogb(right), -126);
    worst = std::max(worst, std::abs(out[i] - right) / std::ldexp(1.0, exponent - 23));
  }
  return worst;
}

TEST(Exponential, IsWithinTwoUnitsInTheLastPlace) {
  constexpr double kBound = 2;
  std::vector<float> in = {0.F, -0.F, -87.F, -1e-30F, -0.34657359F, -0.34657362F};
  const auto end = std::bit_cast<std::uint32_t>(-87.F);
  for (auto bits = std::bit_cast<std::uint32_t>(-1e-9F); bits < end; bits += 97) {
    in.push_back(std::bit_cast<float>(bits));
  }
  std::vector<float> out(in.size());
  const auto count = static_cast<std::int64_t>(in.size());
  in_every_way(Choice::kVectors, [&](int) {
    kernels::cpu::run_vectorised<Exponentials>(in.data(), out.data(), count);
    const double worst = worst_ulp(in, out);
    RecordProperty(concat("ulp_", describe(Choice::kVectors).way), concat(worst));
    EXPECT_LE(worst, kBound);
  });
}

TEST(Exponential, Ends) {
  EXPECT_EQ(kernels::cpu::exponential(0.F), 1.F);
  EXPECT_TRUE(std::isnan(kernels::cpu::exponential(NAN)));
  for (const float small : {-88.F, -1e4F, -3e38F, -INFINITY}) {
    EXPECT_GE(kernels::cpu::exponential(small), 0.F) << small;
    EXPECT_LT(kernels::cpu::exponential(small), 1e-37F) << small;
  }
}

}  // namespace
}  // namespace fourfold::test
