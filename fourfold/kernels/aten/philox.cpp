// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/aten/philox.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include "fourfold/kernels/aten/wide.hpp"

namespace fourfold::kernels::aten {

namespace {

constexpr std::int64_t kWord = 0xFFFFFFFF;

Tensor low(const Tensor& x) {
  return x.bitwise_and(kWord);
}
Tensor high(const Tensor& x) {
  return x.bitwise_right_shift(32).bitwise_and(kWord);
}

/// The two words of x · factor. libtorch has no unsigned numbers of 64 bits, and a product of two
/// words may exceed the signed ones: so the factor is taken in two halves.
struct Product {
  Product(const Tensor& x, std::int64_t factor) {
    const Tensor a = x.mul(factor & 0xFFFF);
    const Tensor b = x.mul(factor >> 16);
    upper = a.bitwise_right_shift(16).add_(b).bitwise_right_shift_(16);
    lower = b.bitwise_and_(0xFFFF).bitwise_left_shift_(16).add_(a).bitwise_and_(kWord);
  }
  Tensor upper;
  Tensor lower;
};

Tensor mixed(const Tensor& a, const Tensor& b, std::uint32_t key) {
  return at::bitwise_xor(a, b).bitwise_xor_(static_cast<std::int64_t>(key));
}

}  // namespace

Tensor philox_words(const Tensor& rows, const grid::Range& columns, Key key) {
  const std::int64_t first = columns.begin / 4;
  const std::int64_t end = (columns.end + 3) / 4;
  const Tensor counters = at::arange(first, end, rows.options()).view({1, -1});
  // Each of the words grows to rows × counters with the first word that it is mixed with.
  Tensor c0 = low(counters);
  Tensor c1 = high(counters);
  Tensor c2 = low(column(rows));
  Tensor c3 = high(column(rows));
  auto k0 = static_cast<std::uint32_t>(key.value);
  auto k1 = static_cast<std::uint32_t>(key.value >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9U, k1 += 0xBB67AE85U) {
    const Product a(c0, 0xD2511F53);
    const Product b(c2, 0xCD9E8D57);
    c0 = mixed(b.upper, c1, k0);
    c1 = b.lower;
    c2 = mixed(a.upper, c3, k1);
    c3 = a.lower;
  }
  const Tensor words = at::stack({c0, c1, c2, c3}, 2);
  return words.view({rows.numel(), 4 * (end - first)})
      .narrow(1, columns.begin - 4 * first, columns.size());
}

Tensor dropout_mask(const Tensor& rows, const grid::Range& columns, Key key, double p, double scale,
                    at::ScalarType type) {
  const auto threshold = static_cast<std::int64_t>(drop_threshold(p));
  const Tensor dropped = philox_words(rows, columns, key).lt(threshold);
  const auto options = rows.options().dtype(type);
  return at::where(dropped, at::full({}, 0., options), at::full({}, scale, options));
}

}  // namespace fourfold::kernels::aten
