// Inputs of the cases of kernels. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "fourfold/kernels/elements.hpp"

namespace fourfold::test {

inline constexpr std::int64_t kRows = 48;
inline constexpr std::int64_t kWidth = 109;

inline at::ScalarType wide(at::ScalarType type) {
  return kernels::statistics_type(type);
}

/// Numbers of bf16 in a type.
inline at::Tensor some(at::ScalarType type, at::IntArrayRef shape = {kRows, kWidth}) {
  return at::randn(shape, at::kDouble).to(at::kBFloat16).to(type);
}

inline at::Tensor zeros(at::ScalarType type, at::IntArrayRef shape) {
  return at::zeros(shape, type);
}

}  // namespace fourfold::test
