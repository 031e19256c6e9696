// The sum of bf16 in f32, one source for the compilers of the device and of the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/base/bfloat16.hpp"
#include "fourfold/comm/nccl/api.hpp"

namespace fourfold::comm::nccl {

/// Element `i` of the sum.
constexpr void sum_element(const Bf16Sum& sum, std::int64_t i) {
  float value = to_float(static_cast<const BFloat16*>(sum.own)[i]);
  const auto* parts = static_cast<const BFloat16*>(sum.parts);
  for (int part = 0; part < sum.parts_count; ++part) {
    value += to_float(parts[part * sum.count + i]);
  }
  static_cast<BFloat16*>(sum.out)[i] = to_bfloat16(value);
}

}  // namespace fourfold::comm::nccl
