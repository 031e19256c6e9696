// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/functions.hpp"
#include "fourfold/kernels/philox.hpp"

namespace fourfold::kernels {

namespace {

/// Mixes 64 bits well (the finaliser of splitmix64).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// A number in (0, 1], with 53 bits.
double uniform(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = ((static_cast<std::uint64_t>(high) << 32) | low) >> 11;
  return (static_cast<double>(bits) + 1.0) * 0x1p-53;
}

/// Two normal numbers from the four words of a counter, by Box and Muller.
std::array<double, 2> normal_pair(const std::uint32_t* w) {
  const double radius = std::sqrt(-2.0 * std::log(uniform(w[0], w[1])));
  const double angle = 2.0 * std::numbers::pi * uniform(w[2], w[3]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// The number of counters whose words are drawn at once, into memory that stays in the cache.
constexpr std::int64_t kCounters = 64;
using Drawn = std::array<std::uint32_t, 4 * kCounters>;

/// Writes the numbers of `count` consecutive indices of a row. Each counter gives the numbers of
/// two indices.
template <class T>
void fill_run(T* out, std::int64_t row, std::int64_t first, std::int64_t count, Key key,
              double deviation) {
  Drawn drawn;
  const std::int64_t end = first + count;
  for (std::int64_t index = first; index < end;) {
    const std::int64_t counter = index / 2;
    const std::int64_t counters = std::min(kCounters, (end - 1) / 2 - counter + 1);
    philox_words(drawn.data(), key.value, static_cast<std::uint64_t>(row),
                 static_cast<std::uint64_t>(counter), counters);
    for (std::int64_t i = 0; i < counters; ++i) {
      const auto pair = normal_pair(drawn.data() + 4 * i);
      for (std::int64_t odd = index % 2; odd < 2 && index < end; ++odd, ++index) {
        *out++ = static_cast<T>(deviation * pair[static_cast<std::size_t>(odd)]);
      }
    }
  }
}

}  // namespace

Key key_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = mix(seed);
  for (const char c : name) hash = mix(hash ^ static_cast<unsigned char>(c));
  return {hash};
}

Key key_of(Key key, std::uint64_t number) {
  return {mix(key.value ^ mix(number))};
}

void fill_normal(Tensor& shard, const grid::Shape& global, const grid::Block& block, Key key,
                 double deviation) {
  FOURFOLD_CHECK(shard.is_contiguous() && shard.dim() <= 3 && shard.dim() > 0);
  if (shard.is_meta()) return;
  functions_of(shard).fill_normal(shard, global, block, key, deviation);
}

void fill_normal_run(float* out, std::int64_t row, std::int64_t first, std::int64_t count, Key key,
                     double deviation) {
  fill_run(out, row, first, count, key, deviation);
}

void fill_normal_run(double* out, std::int64_t row, std::int64_t first, std::int64_t count, Key key,
                     double deviation) {
  fill_run(out, row, first, count, key, deviation);
}

std::int64_t uniform_number(std::int64_t count, std::int64_t row, Key key) {
  FOURFOLD_CHECK(count > 0 && count <= std::int64_t{1} << 31);
  std::array<std::uint32_t, 4> words;
  philox_words(words.data(), key.value, static_cast<std::uint64_t>(row), 0, 1);
  // The 64 bits as a fraction of `count`: off by at most count / 2^64. Only the upper half of the
  // product is needed, and a count of 31 bits lets it be computed in two parts.
  const auto factor = static_cast<std::uint64_t>(count);
  const std::uint64_t low = (factor * words[1]) >> 32;
  return static_cast<std::int64_t>((factor * words[0] + low) >> 32);
}

std::uint32_t drop_threshold(double p) {
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>(std::llround(p * 0x1p32), std::numeric_limits<std::uint32_t>::max()));
}

namespace {

/// Four columns share a counter. Columns are counted from global column 0, whatever part of them is
/// here.
template <class T>
void dropout_run(T* out, std::int64_t row, std::int64_t first, std::int64_t count, Key key,
                 double p, T kept) {
  Drawn drawn;
  const std::uint32_t threshold = drop_threshold(p);
  const std::int64_t end = first + count;
  for (std::int64_t c = first; c < end;) {
    const std::int64_t counter = c / 4;
    const std::int64_t counters = std::min(kCounters, (end - 1) / 4 - counter + 1);
    philox_words(drawn.data(), key.value, static_cast<std::uint64_t>(row),
                 static_cast<std::uint64_t>(counter), counters);
    const std::int64_t skip = c % 4;
    const std::int64_t here = std::min(4 * counters - skip, end - c);
    const std::uint32_t* words = drawn.data() + skip;
    for (std::int64_t i = 0; i < here; ++i) out[i] = words[i] < threshold ? T{} : kept;
    out += here;
    c += here;
  }
}

}  // namespace

void fill_dropout_run(float* out, std::int64_t row, std::int64_t first, std::int64_t count, Key key,
                      double p, double scale) {
  dropout_run(out, row, first, count, key, p, static_cast<float>(scale));
}

void fill_dropout_run(double* out, std::int64_t row, std::int64_t first, std::int64_t count,
                      Key key, double p, double scale) {
  dropout_run(out, row, first, count, key, p, scale);
}

void fill_dropout_mask(Tensor& mask, const Window2& window, Key key, double p, double scale) {
  if (mask.is_meta()) return;
  FOURFOLD_CHECK(mask.is_contiguous() && mask.dim() == 2);
  FOURFOLD_CHECK_EQ(mask.size(0), window.rows.size());
  FOURFOLD_CHECK_EQ(mask.size(1), window.columns.size());
  functions_of(mask).fill_dropout_mask(mask, window, key, p, scale);
}

void apply_dropout(const Tensor& in, Tensor& out, const Window2& window, Key key, double p) {
  if (in.is_meta()) return;
  FOURFOLD_CHECK(in.is_contiguous() && out.is_contiguous() && in.dim() == 2);
  FOURFOLD_CHECK_EQ(in.size(0), window.rows.size());
  FOURFOLD_CHECK_EQ(in.size(1), window.columns.size());
  functions_of(in).apply_dropout(in, out, window, key, p);
}

}  // namespace fourfold::kernels
