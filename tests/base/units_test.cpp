// Quantities: their arithmetic, and how they print around the change from one unit to the next.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/units.hpp"

#include <limits>
#include <sstream>
#include <type_traits>

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

using namespace literals;

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};

TEST(Units, OnlyAddAndCompareToTheirKind) {
  static_assert(Addable<Bytes, Bytes> && Comparable<Bytes, Bytes>);
  static_assert(!Addable<Bytes, Seconds> && !Comparable<Bytes, Flops>);
  static_assert(!Addable<Seconds, double> && !Addable<BytesPerSecond, FlopsPerSecond>);
  static_assert(!std::is_convertible_v<double, Seconds>);
  static_assert(!std::is_convertible_v<Seconds, double>);
}

TEST(Units, Compute) {
  EXPECT_EQ((3_B + 4_B).value(), 7);
  EXPECT_EQ((3_B - 4_B).value(), -1);
  EXPECT_EQ((3_B * 4).value(), 12);
  EXPECT_EQ((4 * 3_B).value(), 12);
  EXPECT_DOUBLE_EQ(3_B / 4_B, 0.75);
  EXPECT_DOUBLE_EQ(Seconds(1.5) / Seconds(0.5), 3.0);
  Bytes sum = 1_KiB;
  sum += 1_B;
  sum -= 25_B;
  EXPECT_EQ(sum, 1000_B);
  EXPECT_EQ(Bytes().value(), 0);
  EXPECT_LT(1_KiB, 1025_B);
  EXPECT_GT(1_s, 999_ms);
}

TEST(Units, RatesAndTimes) {
  EXPECT_DOUBLE_EQ((10_B / 4_s).value(), 2.5);
  EXPECT_DOUBLE_EQ((10_B / BytesPerSecond(4)).value(), 2.5);
  EXPECT_DOUBLE_EQ((Flops(9) / 2_s).value(), 4.5);
  EXPECT_DOUBLE_EQ((Flops(9) / FlopsPerSecond(2)).value(), 4.5);
  static_assert(std::is_same_v<decltype(1_B / 1_s), BytesPerSecond>);
  static_assert(std::is_same_v<decltype(1_B / BytesPerSecond(1)), Seconds>);
}

TEST(Units, LiteralsScale) {
  EXPECT_EQ((1_KiB).value(), 1024);
  EXPECT_EQ((1_MiB).value(), 1024 * 1024);
  EXPECT_EQ((3_GiB).value(), 3221225472);
  EXPECT_DOUBLE_EQ((1.5_s).value(), 1.5);
  EXPECT_DOUBLE_EQ((250_ms).value(), 0.25);
}

TEST(Units, ClockNeverGoesBack) {
  Seconds last = now();
  for (int i = 0; i < 1000; ++i) {
    const Seconds next = now();
    EXPECT_GE(next, last);
    last = next;
  }
}

TEST(UnitsPrint, Bytes) {
  EXPECT_EQ(to_string(0_B), "0 B");
  EXPECT_EQ(to_string(1_B), "1 B");
  EXPECT_EQ(to_string(1000_B), "1000 B");
  EXPECT_EQ(to_string(1023_B), "1023 B");
  EXPECT_EQ(to_string(1_KiB), "1.00 KiB");
  EXPECT_EQ(to_string(1536_B), "1.50 KiB");
  EXPECT_EQ(to_string(10_KiB), "10.0 KiB");
  EXPECT_EQ(to_string(100_KiB), "100 KiB");
  EXPECT_EQ(to_string(1023_KiB), "1023 KiB");
  EXPECT_EQ(to_string(1_MiB - 1_B), "1.00 MiB");
  EXPECT_EQ(to_string(1_MiB), "1.00 MiB");
  EXPECT_EQ(to_string(1_GiB), "1.00 GiB");
  EXPECT_EQ(to_string(1024_GiB), "1.00 TiB");
  EXPECT_EQ(to_string(1_GiB * (1 << 20)), "1.00 PiB");
  EXPECT_EQ(to_string(1_GiB * (1LL << 30)), "1024 PiB");
}

TEST(UnitsPrint, RoundingNeverGivesAFourthDigit) {
  EXPECT_EQ(to_string(Flops(9.994)), "9.99 FLOP");
  EXPECT_EQ(to_string(Flops(9.996)), "10.0 FLOP");
  EXPECT_EQ(to_string(Flops(99.94)), "99.9 FLOP");
  EXPECT_EQ(to_string(Flops(99.96)), "100 FLOP");
  EXPECT_EQ(to_string(Flops(999.4)), "999 FLOP");
  EXPECT_EQ(to_string(Flops(999.6)), "1.00 kFLOP");
  EXPECT_EQ(to_string(Flops(999.6e3)), "1.00 MFLOP");
}

TEST(UnitsPrint, Seconds) {
  EXPECT_EQ(to_string(0_s), "0 s");
  EXPECT_EQ(to_string(Seconds(5e-10)), "0.50 ns");
  EXPECT_EQ(to_string(Seconds(1e-9)), "1.00 ns");
  EXPECT_EQ(to_string(Seconds(999.4e-9)), "999 ns");
  EXPECT_EQ(to_string(Seconds(999.6e-9)), "1.00 us");
  EXPECT_EQ(to_string(Seconds(999.4e-6)), "999 us");
  EXPECT_EQ(to_string(Seconds(999.6e-6)), "1.00 ms");
  EXPECT_EQ(to_string(Seconds(12.34e-3)), "12.3 ms");
  EXPECT_EQ(to_string(Seconds(0.9994)), "999 ms");
  EXPECT_EQ(to_string(Seconds(0.9996)), "1.00 s");
  EXPECT_EQ(to_string(1_s), "1.00 s");
  EXPECT_EQ(to_string(Seconds(86400)), "86400 s");
}

TEST(UnitsPrint, NegativeAsPositiveWithASign) {
  EXPECT_EQ(to_string(Bytes(-1)), "-1 B");
  EXPECT_EQ(to_string(Bytes(-1023)), "-1023 B");
  EXPECT_EQ(to_string(Bytes(-1536)), "-1.50 KiB");
  EXPECT_EQ(to_string(Seconds(-0.9996)), "-1.00 s");
  EXPECT_EQ(to_string(Seconds(-999.6e-6)), "-1.00 ms");
  EXPECT_EQ(to_string(Flops(-1500)), "-1.50 kFLOP");
}

TEST(UnitsPrint, FlopsAndRates) {
  EXPECT_EQ(to_string(Flops(0)), "0 FLOP");
  EXPECT_EQ(to_string(Flops(1.5e12)), "1.50 TFLOP");
  EXPECT_EQ(to_string(Flops(2e18)), "2.00 EFLOP");
  EXPECT_EQ(to_string(Flops(2e21)), "2000 EFLOP");
  EXPECT_EQ(to_string(FlopsPerSecond(104e9)), "104 GFLOP/s");
  EXPECT_EQ(to_string(FlopsPerSecond(1.2e18)), "1.20 EFLOP/s");
  EXPECT_EQ(to_string(BytesPerSecond(0)), "0 B/s");
  EXPECT_EQ(to_string(BytesPerSecond(25e9)), "25.0 GB/s");
  EXPECT_EQ(to_string(BytesPerSecond(999.6e9)), "1.00 TB/s");
}

TEST(UnitsPrint, Streams) {
  std::ostringstream out;
  out << 1_MiB << " in " << 2_s;
  EXPECT_EQ(out.str(), "1.00 MiB in 2.00 s");
}

}  // namespace
}  // namespace fourfold::test
