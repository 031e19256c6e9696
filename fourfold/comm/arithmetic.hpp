// The elementwise arithmetic of reductions, on untyped buffers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "fourfold/comm/buffer.hpp"

namespace fourfold::comm {

/// Computes out[i] = a[i] op b[i]. `out` may be `a` or `b`. The maximum of anything and NaN is NaN.
/// A sum of bf16 is rounded in every call: use the functions below for sums of more than two
/// values.
void combine(void* out, const void* a, const void* b, std::int64_t count, DType dtype, ReduceOp op);

/// These functions sum bf16 in float, with one rounding at the end.
void widen(float* out, const BFloat16* in, std::int64_t count);
void add_widened(float* sum, const BFloat16* in, std::int64_t count);
void round_to_bfloat16(BFloat16* out, const float* in, std::int64_t count);

}  // namespace fourfold::comm
