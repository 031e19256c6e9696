// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/philox.hpp"

#include <algorithm>

#include "fourfold/base/processor.hpp"
#include "fourfold/kernels/both/philox.hpp"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace fourfold::kernels {

namespace {

#ifdef __x86_64__

using both::kPhiloxFactor0;
using both::kPhiloxFactor1;
using both::kPhiloxRounds;
using both::kPhiloxStep0;
using both::kPhiloxStep1;

std::uint32_t low(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
std::uint32_t high(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

/// Four counters. Only the lower half of each 64-bit lane is used; the upper half may be anything.
struct Four {
  __m256i c0;
  __m256i c1;
  __m256i c2;
  __m256i c3;
};

[[gnu::target("avx2")]] inline void round_of(Four& s, __m256i k0, __m256i k1) {
  const __m256i a = _mm256_mul_epu32(s.c0, _mm256_set1_epi64x(kPhiloxFactor0));
  const __m256i b = _mm256_mul_epu32(s.c2, _mm256_set1_epi64x(kPhiloxFactor1));
  s.c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(b, 32), s.c1), k0);
  s.c1 = b;
  s.c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(a, 32), s.c3), k1);
  s.c3 = a;
}

/// Pairs the words in the lower halves of two registers: lane i of the result is (a_i, b_i).
[[gnu::target("avx2")]] inline __m256i paired(__m256i a, __m256i b) {
  return _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xAA);
}

/// Stores the sixteen words of four counters.
[[gnu::target("avx2")]] inline void store(std::uint32_t* out, const Four& s) {
  const __m256i first = paired(s.c0, s.c1);                   // counters 0..3, words 0 and 1
  const __m256i second = paired(s.c2, s.c3);                  // words 2 and 3
  const __m256i even = _mm256_unpacklo_epi64(first, second);  // counters 0 and 2
  const __m256i odd = _mm256_unpackhi_epi64(first, second);   // counters 1 and 3
  auto* to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}

/// Computes counters in groups of four, two groups at a time so that their multiplications overlap.
/// Returns how many counters were computed.
[[gnu::target("avx2")]] std::int64_t wide_words(std::uint32_t* out, std::uint64_t key,
                                                std::uint64_t row, std::uint64_t first,
                                                std::int64_t counters) {
  std::int64_t done = 0;
  for (; done + 8 <= counters; done += 8) {
    const auto base = static_cast<long long>(first + static_cast<std::uint64_t>(done));
    Four s;
    s.c0 = _mm256_set_epi64x(base + 3, base + 2, base + 1, base);
    s.c1 = _mm256_srli_epi64(s.c0, 32);
    s.c2 = _mm256_set1_epi64x(static_cast<long long>(row));
    s.c3 = _mm256_srli_epi64(s.c2, 32);
    Four t = s;
    t.c0 = _mm256_add_epi64(s.c0, _mm256_set1_epi64x(4));
    t.c1 = _mm256_srli_epi64(t.c0, 32);
    std::uint32_t k0 = low(key);
    std::uint32_t k1 = high(key);
    for (int round = 0; round < kPhiloxRounds; ++round, k0 += kPhiloxStep0, k1 += kPhiloxStep1) {
      const __m256i wide0 = _mm256_set1_epi64x(k0);
      const __m256i wide1 = _mm256_set1_epi64x(k1);
      round_of(s, wide0, wide1);
      round_of(t, wide0, wide1);
    }
    store(out + 4 * done, s);
    store(out + 4 * done + 16, t);
  }
  return done;
}

#endif

}  // namespace

void philox_words(std::uint32_t* out, std::uint64_t key, std::uint64_t row, std::uint64_t first,
                  std::int64_t counters) {
  std::int64_t done = 0;
#ifdef __x86_64__
  if (takes_special_way(Choice::kVectors)) done = wide_words(out, key, row, first, counters);
#endif
  for (; done < counters; ++done) {
    const auto words = both::philox(key, row, first + static_cast<std::uint64_t>(done));
    std::copy_n(words.word, 4, out + 4 * done);
  }
}

}  // namespace fourfold::kernels
