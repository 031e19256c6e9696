// SwiGLU on alternating columns against plain libtorch in double.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/swiglu.hpp"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/silu.h>

#include "fourfold/base/error.hpp"

#include "tests/kernels/support.hpp"

namespace fourfold::test {
namespace {

TEST(Swiglu, EqualsLibtorch) {
  for (const std::int64_t n : {1, 8, 55, 128}) {
    in_every_type_and_way([&](at::ScalarType type, double tolerance) {
      const Tensor x = random({13, 2 * n}, type);
      const Tensor dout = random({13, n}, type);
      const Tensor leaf = leaf_of(x);
      const Tensor pairs = leaf.view({13, n, 2});
      const Tensor expected = at::silu(pairs.select(2, 0)) * pairs.select(2, 1);
      expected.backward(dout.to(at::kDouble));
      Tensor out = at::empty_like(dout);
      Tensor dx = at::empty_like(x);
      kernels::swiglu_forward(x, out);
      kernels::swiglu_backward(dout, x, dx);
      EXPECT_LE(relative_difference(out, expected.detach()), tolerance);
      EXPECT_LE(relative_difference(dx, leaf.grad()), tolerance);
    });
  }
}

/// Far from zero the gate is open or shut, and nothing overflows.
TEST(Swiglu, LargeGatesAreFinite) {
  in_every_type_and_way([](at::ScalarType type, double tolerance) {
    Tensor x = random({5, 34}, type);
    Tensor gates = x.view({5, 17, 2}).select(2, 0);
    gates.mul_(1e4);
    Tensor out = at::empty({5, 17}, x.options());
    Tensor dx = at::empty_like(x);
    kernels::swiglu_forward(x, out);
    kernels::swiglu_backward(out, x, dx);
    EXPECT_TRUE(at::isfinite(dx).all().item<bool>());
    const Tensor wide = x.to(at::kDouble).view({5, 17, 2});
    EXPECT_LE(relative_difference(out, at::silu(wide.select(2, 0)) * wide.select(2, 1)), tolerance);
  });
}

TEST(Swiglu, RefusesOtherShapesAndDoesNothingWithMetaTensors) {
  const auto meta = at::TensorOptions(at::kFloat).device(at::kMeta);
  const Tensor x = at::empty({3, 8}, meta);
  Tensor dx = at::empty({3, 8}, meta);
  Tensor out = at::empty({3, 4}, meta);
  kernels::swiglu_forward(x, out);
  kernels::swiglu_backward(out, x, dx);
  EXPECT_THROW(kernels::swiglu_forward(x, dx), InvariantError);
  Tensor fewer_rows = at::empty({2, 4}, meta);
  EXPECT_THROW(kernels::swiglu_forward(x, fewer_rows), InvariantError);
  EXPECT_THROW(kernels::swiglu_backward(fewer_rows, x, dx), InvariantError);
  Tensor narrow = at::empty({3, 6}, meta);
  EXPECT_THROW(kernels::swiglu_backward(out, x, narrow), InvariantError) << "the gradient's shape";
}

}  // namespace
}  // namespace fourfold::test
