// Starts the kernel of sums of bf16.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/nccl/api.hpp"

namespace fourfold::comm::nccl {

/// Returns an error of CUDA, or kSuccess.
int sum_bf16(const Bf16Sum& sum, Stream stream);

}  // namespace fourfold::comm::nccl
