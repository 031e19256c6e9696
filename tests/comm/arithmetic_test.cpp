// The arithmetic of reductions in every element type, and the rounding of bf16.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/every_way.hpp"

namespace fourfold::test {
namespace {

using comm::DType;
using comm::ReduceOp;

// --- Every element type as T: made from a whole number and compared.

template <class T>
T make(int value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
class CombineTyped : public testing::Test {
 protected:
  /// Of values that no type rounds; an odd length leaves a remainder to vector code.
  static std::vector<T> values(int factor, int modulus) {
    std::vector<T> all;
    for (int i = 0; i < 1037; ++i) all.push_back(make<T>(i * factor % modulus - modulus / 2));
    return all;
  }

  static std::vector<T> expected(ReduceOp op) {
    std::vector<T> all;
    for (int i = 0; i < 1037; ++i) {
      const int a = i * 7 % 101 - 50;
      const int b = i * 13 % 89 - 44;
      all.push_back(make<T>(op == ReduceOp::kSum ? a + b : std::max(a, b)));
    }
    return all;
  }

  static void combine(std::vector<T>& out, const std::vector<T>& a, const std::vector<T>& b,
                      ReduceOp op) {
    comm::combine(out.data(), a.data(), b.data(), static_cast<std::int64_t>(a.size()),
                  comm::kDTypeOf<T>, op);
  }
};

using Types = testing::Types<double, float, BFloat16, std::int64_t>;
TYPED_TEST_SUITE(CombineTyped, Types);

TYPED_TEST(CombineTyped, IntoAThirdBuffer) {
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
    const auto a = TestFixture::values(7, 101);
    const auto b = TestFixture::values(13, 89);
    std::vector<TypeParam> out(a.size());
    TestFixture::combine(out, a, b, op);
    EXPECT_EQ(out, TestFixture::expected(op)) << op;
    EXPECT_EQ(a, TestFixture::values(7, 101)) << "an input was changed";
    EXPECT_EQ(b, TestFixture::values(13, 89)) << "an input was changed";
  }
}

TYPED_TEST(CombineTyped, IntoTheFirst) {
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
    auto a = TestFixture::values(7, 101);
    TestFixture::combine(a, a, TestFixture::values(13, 89), op);
    EXPECT_EQ(a, TestFixture::expected(op)) << op;
  }
}

TYPED_TEST(CombineTyped, IntoTheSecond) {
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
    auto b = TestFixture::values(13, 89);
    TestFixture::combine(b, TestFixture::values(7, 101), b, op);
    EXPECT_EQ(b, TestFixture::expected(op)) << op;
  }
}

// Wide vectors start at an aligned address: what lies before it is another path.
TYPED_TEST(CombineTyped, AtEveryAlignmentAndShortLength) {
  const auto a = TestFixture::values(7, 101);
  const auto b = TestFixture::values(13, 89);
  const auto sums = TestFixture::expected(ReduceOp::kSum);
  for (std::size_t from = 0; from < 33; ++from) {
    for (std::size_t count = 0; count < 40; ++count) {
      std::vector<TypeParam> out(80, make<TypeParam>(1));
      auto expected = out;
      std::copy_n(sums.begin(), count, expected.begin() + static_cast<std::ptrdiff_t>(from));
      comm::combine(out.data() + from, a.data(), b.data(), static_cast<std::int64_t>(count),
                    comm::kDTypeOf<TypeParam>, ReduceOp::kSum);
      ASSERT_EQ(out, expected) << count << " from " << from;
    }
  }
}

TYPED_TEST(CombineTyped, BothWaysGiveTheSameBits) {
  std::vector<TypeParam> a;
  std::vector<TypeParam> b;
  for (int i = 0; i < 1037; ++i) {
    if constexpr (std::is_same_v<TypeParam, BFloat16>) {
      a.push_back(to_bfloat16(std::sin(static_cast<float>(i))));
      b.push_back(to_bfloat16(std::exp(std::cos(static_cast<float>(i)))));
    } else {
      a.push_back(static_cast<TypeParam>(1e6 * std::sin(i)));
      b.push_back(static_cast<TypeParam>(1e6 * std::exp(std::cos(i))));
    }
  }
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
    std::vector<TypeParam> plain(a.size());
    in_every_way(Choice::kVectors, [&](bool wide) {
      std::vector<TypeParam> out(a.size());
      TestFixture::combine(out, a, b, op);
      if (!wide) plain = out;
      EXPECT_EQ(std::memcmp(out.data(), plain.data(), out.size() * sizeof(TypeParam)), 0) << op;
    });
  }
}

TYPED_TEST(CombineTyped, WritesNoMoreThanCount) {
  const std::vector<TypeParam> a(8, make<TypeParam>(3));
  std::vector<TypeParam> out(8, make<TypeParam>(1));
  comm::combine(out.data(), a.data(), a.data(), 5, comm::kDTypeOf<TypeParam>, ReduceOp::kSum);
  EXPECT_EQ(out[4], make<TypeParam>(6));
  EXPECT_EQ(out[5], make<TypeParam>(1));
  comm::combine(out.data(), a.data(), a.data(), 0, comm::kDTypeOf<TypeParam>, ReduceOp::kMax);
  EXPECT_EQ(out[0], make<TypeParam>(6));
}

// --- Values beyond small whole numbers.

template <class T>
T combine_one(T a, T b, ReduceOp op) {
  T out{};
  comm::combine(&out, &a, &b, 1, comm::kDTypeOf<T>, op);
  return out;
}

BFloat16 bf16(float value) {
  return to_bfloat16(value);
}
BFloat16 bits(std::uint32_t pattern) {
  return {static_cast<std::uint16_t>(pattern)};
}
bool is_nan(double value) {
  return std::isnan(value);
}
bool is_nan(BFloat16 value) {
  return std::isnan(to_float(value));
}

template <class T>
void check_nan_in_max(T nan, T low, T high) {
  for (T other : {low, high}) {
    EXPECT_TRUE(is_nan(combine_one(nan, other, ReduceOp::kMax)));
    EXPECT_TRUE(is_nan(combine_one(other, nan, ReduceOp::kMax)));
    EXPECT_TRUE(is_nan(combine_one(nan, other, ReduceOp::kSum)));
    EXPECT_TRUE(is_nan(combine_one(other, nan, ReduceOp::kSum)));
  }
  EXPECT_TRUE(is_nan(combine_one(nan, nan, ReduceOp::kMax)));
  EXPECT_EQ(combine_one(low, high, ReduceOp::kMax), high);
  EXPECT_EQ(combine_one(high, low, ReduceOp::kMax), high);
}

TEST(Combine, MaximumWithNanIsNan) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr float kInfF = std::numeric_limits<float>::infinity();
  check_nan_in_max<double>(std::nan(""), -kInf, kInf);
  check_nan_in_max<float>(std::nanf(""), -kInfF, kInfF);
  check_nan_in_max<BFloat16>(bits(0x7fc0), bf16(-kInfF), bf16(kInfF));
  check_nan_in_max<BFloat16>(bits(0xffc1), bf16(-1), bf16(2));
}

TEST(Combine, MaximumWithNanInLongBuffers) {
  std::vector<float> a(67, 1.0F);
  std::vector<float> b(67, 2.0F);
  a[5] = std::nanf("");
  b[40] = std::nanf("");
  comm::combine(a.data(), a.data(), b.data(), 67, DType::kF32, ReduceOp::kMax);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (i == 5 || i == 40) {
      EXPECT_TRUE(std::isnan(a[i])) << i;
    } else {
      EXPECT_EQ(a[i], 2.0F) << i;
    }
  }
}

TEST(Combine, IntegersKeepEveryBit) {
  const std::int64_t large = (std::int64_t{1} << 62) + 1;
  EXPECT_EQ(combine_one<std::int64_t>(large, 2, ReduceOp::kSum), large + 2);
  EXPECT_EQ(combine_one<std::int64_t>(large, large + 1, ReduceOp::kMax), large + 1);
  EXPECT_EQ(combine_one<std::int64_t>(-large, -5, ReduceOp::kMax), -5);
}

TEST(Combine, DoublesAreNotRoundedToFloat) {
  EXPECT_EQ(combine_one(1.0, 1e-12, ReduceOp::kSum), 1.0 + 1e-12);
  EXPECT_EQ(combine_one(1.0, 1.0 + 1e-12, ReduceOp::kMax), 1.0 + 1e-12);
}

TEST(Combine, Bf16SumRoundsOnce) {
  EXPECT_EQ(combine_one(bf16(256), bf16(1), ReduceOp::kSum), bf16(256));  // a tie, to even
  EXPECT_EQ(combine_one(bf16(258), bf16(1), ReduceOp::kSum), bf16(260));  // a tie, to even
  EXPECT_EQ(combine_one(bf16(-1), bf16(-3), ReduceOp::kMax), bf16(-1));
}

// --- bf16.

TEST(BFloat16, EveryPatternSurvivesTheRoundTrip) {
  for (std::uint32_t pattern = 0; pattern <= 0xffff; ++pattern) {
    const BFloat16 value = bits(pattern);
    const bool nan = (pattern & 0x7fffU) > 0x7f80U;
    ASSERT_EQ(std::isnan(to_float(value)), nan) << std::hex << pattern;
    // A NaN comes back quiet, with its sign and payload.
    const std::uint32_t expected = nan ? pattern | 0x40U : pattern;
    ASSERT_EQ(to_bfloat16(to_float(value)).bits, expected) << std::hex << pattern;
  }
}

float float_of(std::uint32_t pattern) {
  return std::bit_cast<float>(pattern);
}

TEST(BFloat16, RoundsToNearestTiesToEven) {
  EXPECT_EQ(to_bfloat16(float_of(0x3f800000)).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(float_of(0x3f807fff)).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(float_of(0x3f808000)).bits, 0x3f80);  // tie, down to even
  EXPECT_EQ(to_bfloat16(float_of(0x3f808001)).bits, 0x3f81);
  EXPECT_EQ(to_bfloat16(float_of(0x3f817fff)).bits, 0x3f81);
  EXPECT_EQ(to_bfloat16(float_of(0x3f818000)).bits, 0x3f82);  // tie, up to even
  EXPECT_EQ(to_bfloat16(float_of(0xbf818000)).bits, 0xbf82);
  EXPECT_EQ(to_bfloat16(float_of(0x3fffffff)).bits, 0x4000);  // carries into the exponent
  EXPECT_EQ(to_bfloat16(float_of(0x00000001)).bits, 0x0000);
  EXPECT_EQ(to_bfloat16(float_of(0x00008001)).bits, 0x0001);
}

TEST(BFloat16, IsTheNearestOfAllPatterns) {
  // Between neighbours lo and hi every float goes to the nearer one; a sample of positive floats.
  for (std::uint32_t pattern = 0x00000100; pattern < 0x7f7f0000; pattern += 98'765) {
    const std::uint32_t low = pattern >> 16;
    const double value = float_of(pattern);
    const double below = value - to_float(bits(low));
    const double above = to_float(bits(low + 1)) - value;
    const std::uint32_t nearest = below < above ? low : above < below ? low + 1 : low + (low & 1);
    ASSERT_EQ(to_bfloat16(float_of(pattern)).bits, nearest) << std::hex << pattern;
    ASSERT_EQ(to_bfloat16(-float_of(pattern)).bits, nearest | 0x8000U) << std::hex << pattern;
  }
}

TEST(BFloat16, InfinityZeroAndOverflow) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_bfloat16(kInf).bits, 0x7f80);
  EXPECT_EQ(to_bfloat16(-kInf).bits, 0xff80);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(to_bfloat16(float_of(0x7f7f7fff)).bits, 0x7f7f);
  EXPECT_EQ(to_bfloat16(0.0F).bits, 0x0000);
  EXPECT_EQ(to_bfloat16(-0.0F).bits, 0x8000);
}

TEST(BFloat16, NanStaysNan) {
  for (std::uint32_t pattern : {0x7f800001U, 0x7f80ffffU, 0x7fffffffU, 0xff800001U, 0xffffffffU,
                                0x7fc00000U, 0x7f810000U}) {
    const BFloat16 value = to_bfloat16(float_of(pattern));
    EXPECT_TRUE(is_nan(value)) << std::hex << pattern;
    EXPECT_EQ(value.bits >> 15, pattern >> 31) << std::hex << pattern;
  }
}

TEST(BFloat16, WidensAddsAndRoundsOnce) {
  // 256 and 256 ones: rounding every sum would stay at 256.
  const std::vector<BFloat16> start(5, bf16(256));
  const std::vector<BFloat16> ones = {bf16(1), bf16(0.5F), bf16(-1), bf16(0), bf16(2)};
  std::vector<float> sum(6, -7.0F);
  comm::widen(sum.data(), start.data(), 5);
  EXPECT_EQ(sum, (std::vector<float>{256, 256, 256, 256, 256, -7}));
  for (int i = 0; i < 256; ++i) comm::add_widened(sum.data(), ones.data(), 5);
  EXPECT_EQ(sum, (std::vector<float>{512, 384, 0, 256, 768, -7}));
  std::vector<BFloat16> out(6, bf16(9));
  comm::round_to_bfloat16(out.data(), sum.data(), 5);
  EXPECT_EQ(out,
            (std::vector<BFloat16>{bf16(512), bf16(384), bf16(0), bf16(256), bf16(768), bf16(9)}));
  const float tie = 257.0F;
  comm::round_to_bfloat16(out.data(), &tie, 1);
  EXPECT_EQ(out[0], bf16(256));
}

TEST(View, KnowsTypeCountAndBytes) {
  std::vector<BFloat16> values(6);
  const comm::View whole = comm::view(values);
  EXPECT_EQ(whole.data, values.data());
  EXPECT_EQ(whole.count, 6);
  EXPECT_EQ(whole.dtype, DType::kBF16);
  EXPECT_EQ(whole.bytes(), 12);
  const std::vector<double> constant(3);
  const comm::ConstView read = comm::view(constant);
  EXPECT_EQ(read.dtype, DType::kF64);
  EXPECT_EQ(read.bytes(), 24);
  const comm::ConstView converted = whole;
  EXPECT_EQ(converted.data, whole.data);
  EXPECT_EQ(converted.count, 6);
  EXPECT_EQ(converted.dtype, DType::kBF16);
}

}  // namespace
}  // namespace fourfold::test
