// The order of samples: complete, fixed, and without pattern.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/samples.hpp"

#include <cmath>
#include <numeric>

#include "fourfold/data/permutation.hpp"
#include "fourfold/data/token_writer.hpp"

#include "tests/data/support.hpp"

namespace fourfold::test {
namespace {

using data::permute;
using data::Samples;
using data::Tokens;
using Order = std::vector<std::int64_t>;

Order order(std::int64_t n, std::uint64_t seed, std::uint64_t epoch) {
  Order all(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    all[static_cast<std::size_t>(i)] = permute(n, seed, epoch, i);
  }
  return all;
}

Order sorted(Order all) {
  std::sort(all.begin(), all.end());
  return all;
}

Order counting(std::int64_t n) {
  Order all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(Permutation, EveryIndexOnce) {
  for (std::int64_t n = 1; n <= 300; ++n) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      ASSERT_EQ(sorted(order(n, seed, 3)), counting(n)) << n;
    }
  }
  for (const std::int64_t n : {1023, 1024, 1025, 4095, 4096, 4097, 65536, 100'003}) {
    ASSERT_EQ(sorted(order(n, 1, 0)), counting(n)) << n;
  }
}

TEST(Permutation, LargeNumbersStayInRange) {
  for (const int bits : {31, 32, 33, 40, 62}) {
    for (const std::int64_t off : {-1, 0, 1}) {
      const std::int64_t n = (std::int64_t{1} << bits) + off;
      for (const std::int64_t index : {std::int64_t{0}, n / 3, n - 1}) {
        const std::int64_t at = permute(n, 5, 6, index);
        ASSERT_TRUE(at >= 0 && at < n) << n;
      }
    }
  }
  EXPECT_THROW(permute(10, 0, 0, 10), InvariantError);
  EXPECT_THROW(permute(10, 0, 0, -1), InvariantError);
  EXPECT_THROW(permute(0, 0, 0, 0), InvariantError);
}

TEST(Permutation, NeverChanges) {
  EXPECT_EQ(order(10, 0, 0), (Order{7, 8, 2, 6, 9, 3, 0, 4, 5, 1}));
  EXPECT_EQ(order(10, 0, 1), (Order{5, 6, 8, 2, 0, 3, 4, 1, 7, 9}));
  EXPECT_EQ(order(10, 1, 0), (Order{9, 0, 3, 7, 4, 1, 6, 2, 8, 5}));
  EXPECT_EQ(permute(1'000'000, 42, 7, 123'456), 339'811);
  EXPECT_EQ(permute(std::int64_t{1} << 40, 42, 7, 123'456), 165'893'631'792);
}

double share_of_equal_places(const Order& a, const Order& b) {
  int equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i] ? 1 : 0;
  return equal / static_cast<double>(a.size());
}

TEST(Permutation, SeedsAndEpochsDiffer) {
  const Order first = order(10'000, 1, 0);
  for (std::uint64_t other = 1; other < 20; ++other) {
    EXPECT_LT(share_of_equal_places(first, order(10'000, 1, other)), 0.002);
    EXPECT_LT(share_of_equal_places(first, order(10'000, 1 + other, 0)), 0.002);
    EXPECT_LT(share_of_equal_places(first, order(10'000, 1 - other, other)), 0.002);
  }
  EXPECT_LT(share_of_equal_places(first, counting(10'000)), 0.002);
}

/// Correlation of a[i] and a[i + lag].
double correlation(const Order& a, std::size_t lag) {
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double products = 0;
  double squares = 0;
  for (std::size_t i = 0; i + lag < a.size(); ++i) {
    const double x = static_cast<double>(a[i]) - mean;
    products += x * (static_cast<double>(a[i + lag]) - mean);
    squares += x * x;
  }
  return products / squares;
}

TEST(Permutation, NeighboursAreNotRelated) {
  // With n values a correlation by chance is about 1/sqrt(n).
  for (const std::int64_t n : {4096, 5000, 16'384, 40'000}) {
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
      const Order all = order(n, 9, epoch);
      for (const std::size_t lag : {1U, 2U, 3U, 64U}) {
        EXPECT_LT(std::abs(correlation(all, lag)), 5 / std::sqrt(static_cast<double>(n)));
      }
    }
  }
}

TEST(Permutation, PlacesAreEquallyLikely) {
  // How often index 3 goes to each of 12 places over many epochs, by chi-squared with 11 degrees.
  constexpr int kPlaces = 12;
  constexpr int kEpochs = 12'000;
  std::vector<int> counts(kPlaces, 0);
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    ++counts[static_cast<std::size_t>(permute(kPlaces, 1, epoch, 3))];
  }
  double chi = 0;
  for (const int count : counts)
    chi += std::pow(count - kEpochs / kPlaces, 2.0) * kPlaces / kEpochs;
  EXPECT_LT(chi, 35.0);
}

class SampleOrder : public InFolder {
 protected:
  /// Tokens 0, 1, 2, ...
  Tokens tokens(std::int32_t n) const {
    data::TokenWriter writer(path(concat(n)), 1'000'000, 37);
    for (std::int32_t token = 0; token < n; ++token) writer.append(std::span(&token, 1));
    writer.commit();
    return Tokens(path(concat(n)));
  }
};

TEST_F(SampleOrder, WindowsStepByTheContext) {
  const Samples samples(tokens(101), 10, 1);
  EXPECT_EQ(samples.windows(), 10);
  EXPECT_EQ(samples.context(), 10);
  Order in(10);
  Order out(10);
  for (std::int64_t window = 0; window < 10; ++window) {
    samples.read_window(window, in.data(), out.data());
    for (std::int64_t i = 0; i < 10; ++i) {
      ASSERT_EQ(in[static_cast<std::size_t>(i)], window * 10 + i);
      ASSERT_EQ(out[static_cast<std::size_t>(i)], window * 10 + i + 1);
    }
  }
  EXPECT_THROW(samples.read_window(10, in.data(), out.data()), InvariantError);
  EXPECT_THROW(samples.read_window(-1, in.data(), out.data()), InvariantError);
  EXPECT_EQ(Samples(tokens(100), 10, 1).windows(), 9) << "the last target would lack";
  EXPECT_EQ(Samples(tokens(110), 10, 1).windows(), 10);
}

TEST_F(SampleOrder, EveryEpochHasEveryWindowInAnotherOrder) {
  const Samples samples(tokens(401), 8, 3);
  ASSERT_EQ(samples.windows(), 50);
  std::vector<Order> epochs;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    Order windows;
    for (std::int64_t i = 0; i < 50; ++i) {
      Order in(8);
      Order out(8);
      samples.read(epoch * 50 + i, in.data(), out.data());
      ASSERT_EQ(out[7], in[7] + 1);
      windows.push_back(in[0] / 8);
      ASSERT_EQ(samples.window_of(epoch * 50 + i), windows.back());
      ASSERT_EQ(windows.back(), permute(50, 3, static_cast<std::uint64_t>(epoch), i));
    }
    EXPECT_EQ(sorted(windows), counting(50));
    for (const Order& other : epochs) EXPECT_NE(windows, other);
    epochs.push_back(windows);
  }
  EXPECT_THROW(samples.window_of(-1), InvariantError);
  EXPECT_NE(Samples(tokens(400), 8, 4).window_of(0), samples.window_of(0));
}

TEST_F(SampleOrder, ASliceIsAllThereIs) {
  const Samples samples(tokens(100).slice(50, 71), 10, 1);
  ASSERT_EQ(samples.windows(), 2);
  Order in(10);
  Order out(10);
  samples.read_window(1, in.data(), out.data());
  EXPECT_EQ(in[0], 60);
  EXPECT_EQ(out[9], 70);
}

TEST_F(SampleOrder, LooksAtEveryTokenThatItReads) {
  // Token number n is n: the first that is too large is a target of window 3 and in window 4.
  const Samples samples(tokens(101), 10, 1, 40);
  Order in(10);
  Order out(10);
  for (std::int64_t window = 0; window < 3; ++window) {
    EXPECT_NO_THROW(samples.read_window(window, in.data(), out.data()));
  }
  EXPECT_SAYS(refusal([&] { samples.read_window(3, in.data(), out.data()); }),
              "000001.bin does not fit the vocabulary of 40: its token number 3 is 40");
  EXPECT_SAYS(refusal([&] { samples.read_window(4, in.data(), out.data()); }), " is 40");
  EXPECT_SAYS(refusal([&] { samples.read_window(9, in.data(), out.data()); }), " is 90");
  EXPECT_NO_THROW(Samples(tokens(51), 10, 1, 51).read_window(4, in.data(), out.data()));
}

TEST_F(SampleOrder, NeedsOneWindow) {
  EXPECT_EQ(Samples(tokens(11), 10, 1).windows(), 1);
  EXPECT_SAYS(refusal([&] { Samples(tokens(10), 10, 1); }),
              "there are only 10 tokens; a context of 10 needs at least 10 and one more");
  EXPECT_SAYS(refusal([&] { Samples(tokens(5).slice(2, 2), 10, 1); }), "only 0 tokens");
  EXPECT_THROW(Samples(tokens(12), 0, 1), InvariantError);
}

TEST_F(SampleOrder, ContextOfOneToken) {
  const Samples samples(tokens(5), 1, 1);
  ASSERT_EQ(samples.windows(), 4);
  std::int64_t in = 0;
  std::int64_t out = 0;
  samples.read_window(3, &in, &out);
  EXPECT_EQ(in, 3);
  EXPECT_EQ(out, 4);
}

}  // namespace
}  // namespace fourfold::test
