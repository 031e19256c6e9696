// What tests of kernels share: tensors, distances, and every type in every way of the vectors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fourfold/kernels/elements.hpp"

#include "tests/support/every_way.hpp"

namespace fourfold::test {

using at::Tensor;

/// Of the largest element of `expected`.
inline double relative_difference(const Tensor& found, const Tensor& expected) {
  const double size = expected.to(at::kDouble).abs().max().item<double>();
  return at::sub(found.to(at::kDouble), expected.to(at::kDouble)).abs().max().item<double>() / size;
}

/// How far a kernel may be from the same computation in double on the same input: a few units in
/// the last place of float in sums of about a hundred; of bf16 one rounding of the result.
inline double tolerance_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return 1e-12;
    case at::kFloat:
      return 4e-6;
    default:
      return 0x1p-8;
  }
}

/// Calls body(type, tolerance) for every type in every way of the vectors, with the same random
/// numbers.
template <class Body>
void in_every_type_and_way(const Body& body) {
  in_every_way(Choice::kVectors, [&](bool) {
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(c10::toString(type));
      at::manual_seed(5);
      body(type, tolerance_of(type));
    }
  });
}

inline Tensor random(at::IntArrayRef shape, at::ScalarType type) {
  return at::randn(shape, at::kDouble).to(type);
}

/// A copy in double whose gradient is wanted.
inline Tensor leaf_of(const Tensor& values) {
  return values.detach().to(at::kDouble).clone().set_requires_grad(true);
}

}  // namespace fourfold::test
