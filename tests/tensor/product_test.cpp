// Products in every type, by both ways of bf16, against double; and the memory that they need.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/product.hpp"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/tensor/torch.hpp"

#include "tests/support/every_way.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;
using kernels::Into;
using tensor::MemoryClass;
using tensor::MemoryMeter;

/// On a mesh of one rank.
void run_product(Tensor& out, const Tensor& a, const Tensor& b, Into into = Into::kNew) {
  static comm::World world = comm::self::open();
  static const tensor::Mesh mesh(world, grid::Grid());
  tensor::product(mesh, "product", out, a, b, into);
}

struct Sizes {
  std::int64_t m;
  std::int64_t k;
  std::int64_t n;
};

/// Some below and some above what libtorch gives to oneDNN, with remainders for its blocks.
constexpr Sizes kSizes[] = {{4, 64, 4}, {16, 16, 16}, {17, 16, 16}, {8, 24, 72}, {65, 130, 33}};

/// m × n, as it is or as a view that is transposed.
Tensor matrix(std::int64_t m, std::int64_t n, bool transposed, at::ScalarType type) {
  return transposed ? at::randn({n, m}).to(type).t() : at::randn({m, n}).to(type);
}

/// Of the largest element of the product.
double relative_error(const Tensor& found, const Tensor& exact, const Tensor& product) {
  return at::sub(found.to(at::kDouble), exact).abs().max().item<double>() /
         product.abs().max().item<double>();
}

/// A product in each layout, new and added to what is there, in memory with a gap after each row.
double worst_error(const Sizes& s, at::ScalarType type, at::ScalarType out_type) {
  double worst = 0;
  for (int layout = 0; layout < 8; ++layout) {
    const Tensor a = matrix(s.m, s.k, (layout & 1) != 0, type);
    const Tensor b = matrix(s.k, s.n, (layout & 2) != 0, type);
    const Into into = (layout & 4) != 0 ? Into::kSum : Into::kNew;
    const Tensor wider = at::randn({s.m, s.n + 3}).to(out_type);
    const Tensor before = wider.clone();
    Tensor out = wider.narrow(1, 0, s.n);
    const Tensor product = at::mm(a.to(at::kDouble), b.to(at::kDouble));
    Tensor exact = product;
    if (into == Into::kSum) exact = exact.add(before.narrow(1, 0, s.n).to(at::kDouble));
    run_product(out, a, b, into);
    worst = std::max(worst, relative_error(out, exact, product));
    EXPECT_TRUE(at::equal(wider.narrow(1, s.n, 3), before.narrow(1, s.n, 3))) << "the gap";
  }
  return worst;
}

TEST(Product, IsThatOfLibtorchInFloatAndDouble) {
  for (const Sizes& s : kSizes) {
    EXPECT_LE(worst_error(s, at::kDouble, at::kDouble), 1e-14) << s.m << " " << s.k << " " << s.n;
    EXPECT_LE(worst_error(s, at::kFloat, at::kFloat), 1e-5) << s.m << " " << s.k << " " << s.n;
  }
}

/// Sums in float, rounded once: half of 2^-8 of the largest element, and as much again where the
/// product is rounded before it is added. On a processor without AVX-512, libtorch 1.13 makes
/// native products by loops that round every partial sum: k times as much.
double bf16_tolerance(bool native, const Sizes& s) {
  const double once = 0x1p-8;
  return native ? once * static_cast<double>(s.k) / 2 : once;
}

TEST(Product, OfBf16IsNearDoubleInBothWays) {
  in_every_way(Choice::kBf16Products, [](bool native) {
    for (const Sizes& s : kSizes) {
      for (const auto out_type : {at::kBFloat16, at::kFloat}) {
        EXPECT_LE(worst_error(s, at::kBFloat16, out_type), bf16_tolerance(native, s))
            << s.m << " " << s.k << " " << s.n << " into " << out_type;
      }
    }
  });
}

/// What the previous tolerance allows elsewhere must not happen where oneDNN has the instructions:
/// there both ways are equally near.
TEST(Product, OfBf16IsRoundedOnceByOneDnn) {
  const Choice products = Choice::kBf16Products;
  const ForcedChoice native(products, true);
  const Sizes s{64, 1024, 64};
  const Tensor a = matrix(s.m, s.k, false, at::kBFloat16);
  const Tensor b = matrix(s.k, s.n, false, at::kBFloat16);
  const Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  Tensor out = at::empty({s.m, s.n}, at::kBFloat16);
  run_product(out, a, b);
  const double error = relative_error(out, exact, exact);
  RecordProperty("error", concat(error));
  // Bytes of scratch say that oneDNN has made it.
  const MemoryMeter meter;
  {
    const MemoryMeter::Counting counting(meter);
    run_product(out, a, b);
  }
  if (meter.peaks()[MemoryClass::kWorkspace] == Bytes(0)) GTEST_SKIP() << "not by oneDNN";
  EXPECT_LE(error, 0x1p-8);
}

/// Small products never round partial sums, whichever way is taken: the sum of 256 and 256 ones in
/// bf16 would stay at 256.
TEST(Product, SmallOnesSumInFloat) {
  in_every_way(Choice::kBf16Products, [](bool) {
    Tensor a = at::ones({1, 257}).to(at::kBFloat16);
    a[0][0] = 256;
    const Tensor b = at::ones({257, 4}).to(at::kBFloat16);
    Tensor out = at::empty({1, 4}, at::kBFloat16);
    run_product(out, a, b);
    EXPECT_TRUE(at::equal(out.to(at::kFloat), at::full({1, 4}, 512.F)));
  });
}

/// As on a processor for which oneDNN has nothing.
TEST(Product, OfBf16RunsNativelyWithoutOneDnn) {
  const bool enabled = at::globalContext().userEnabledMkldnn();
  at::globalContext().setUserEnabledMkldnn(false);
  const ForcedChoice native(Choice::kBf16Products, true);
  for (const Sizes& s : kSizes) {
    EXPECT_LE(worst_error(s, at::kBFloat16, at::kBFloat16), bf16_tolerance(true, s))
        << s.m << " " << s.k << " " << s.n;
  }
  at::globalContext().setUserEnabledMkldnn(enabled);
}

TEST(Product, NeedsOnlyWorkspace) {
  in_every_way(Choice::kBf16Products, [](bool) {
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      for (const auto out_type : {type, type == at::kBFloat16 ? at::kFloat : type}) {
        for (const Into into : {Into::kNew, Into::kSum}) {
          const Tensor a = matrix(65, 130, true, type);
          const Tensor b = matrix(130, 33, false, type);
          Tensor out = at::zeros({65, 33}, out_type);
          const MemoryMeter meter;
          const MemoryMeter::Counting counting(meter);
          run_product(out, a, b, into);
          EXPECT_EQ(meter.peaks().total(), Bytes(0)) << type << " into " << out_type;
          EXPECT_EQ(meter.now(), tensor::MemoryUse{}) << type << " into " << out_type;
        }
      }
    }
  });
}

TEST(Product, OfBf16ByWayOfFloatCopiesIntoWorkspace) {
  const ForcedChoice by_float(Choice::kBf16Products, false);
  const Tensor a = matrix(65, 130, false, at::kBFloat16);
  const Tensor b = matrix(130, 33, false, at::kBFloat16);
  Tensor out = at::zeros({65, 33}, at::kBFloat16);
  const MemoryMeter meter;
  const MemoryMeter::Counting counting(meter);
  run_product(out, a, b);
  EXPECT_GE(meter.peaks()[MemoryClass::kWorkspace], Bytes(4 * (65 * 130 + 130 * 33 + 65 * 33)));
}

TEST(Product, OfMetaTensorsNeedsNothing) {
  in_every_way(Choice::kBf16Products, [](bool) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const auto options = at::TensorOptions(type).device(at::kMeta);
      const Tensor a = at::empty({65, 130}, options);
      const Tensor b = at::empty({130, 33}, options);
      Tensor out = at::empty({65, 33}, options);
      const MemoryMeter meter;
      const MemoryMeter::Counting counting(meter);
      run_product(out, a, b);
      EXPECT_EQ(meter.peaks(), tensor::MemoryUse{});
    }
  });
}

}  // namespace
}  // namespace fourfold::test
