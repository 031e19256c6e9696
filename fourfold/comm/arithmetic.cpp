// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "fourfold/base/processor.hpp"

namespace fourfold::comm {

namespace {

template <class T>
T maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(a) || a > b ? a : b;  // if b is NaN, "a > b" is false and b is returned
  } else {
    return a > b ? a : b;
  }
}

// The loops are plain so that the compiler vectorises them. `out` is equal to `a`, to `b` or to
// neither, and never overlaps them with an offset, so that "ivdep" is true. The loops are inlined
// into one function for every processor and one for processors with wider vectors. Each element is
// computed independently, so that both functions give the same bits.
#define FOURFOLD_INLINE [[gnu::always_inline]] inline

template <class T>
FOURFOLD_INLINE void combine_typed(void* out, const void* a, const void* b, std::int64_t count,
                                   ReduceOp op) {
  auto* z = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  if (op == ReduceOp::kSum) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) z[i] = x[i] + y[i];
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) z[i] = maximum(x[i], y[i]);
  }
}

FOURFOLD_INLINE void combine_bf16(BFloat16* z, const BFloat16* x, const BFloat16* y,
                                  std::int64_t count, ReduceOp op) {
  if (op == ReduceOp::kSum) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) z[i] = to_bfloat16(to_float(x[i]) + to_float(y[i]));
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const float a = to_float(x[i]);
      z[i] = std::isnan(a) || a > to_float(y[i]) ? x[i] : y[i];
    }
  }
}

FOURFOLD_INLINE void combine_any(void* out, const void* a, const void* b, std::int64_t count,
                                 DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::kF64:
      return combine_typed<double>(out, a, b, count, op);
    case DType::kF32:
      return combine_typed<float>(out, a, b, count, op);
    case DType::kI64:
      return combine_typed<std::int64_t>(out, a, b, count, op);
    case DType::kBF16:
      return combine_bf16(static_cast<BFloat16*>(out), static_cast<const BFloat16*>(a),
                          static_cast<const BFloat16*>(b), count, op);
  }
}

#ifdef __x86_64__
// This does not use target_clones, whose resolvers run before the thread sanitizer is ready.
[[gnu::target("avx2")]] void combine_wide(void* out, const void* a, const void* b,
                                          std::int64_t count, DType dtype, ReduceOp op) {
  combine_any(out, a, b, count, dtype, op);
}
#else
void combine_wide(void* out, const void* a, const void* b, std::int64_t count, DType dtype,
                  ReduceOp op) {
  combine_any(out, a, b, count, dtype, op);
}
#endif

}  // namespace

void combine(void* out, const void* a, const void* b, std::int64_t count, DType dtype,
             ReduceOp op) {
  if (!takes_special_way(Choice::kVectors)) return combine_any(out, a, b, count, dtype, op);
  // Wide stores that cross cache lines cost more than they save.
  constexpr std::uintptr_t kVector = 32;
  const std::int64_t size = schedule::size_of(dtype);
  const auto beyond = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out) % kVector);
  const std::int64_t head =
      beyond == 0 ? 0 : std::min(count, (static_cast<std::int64_t>(kVector) - beyond) / size);
  if (head > 0) combine_any(out, a, b, head, dtype, op);
  const std::int64_t skip = head * size;
  combine_wide(static_cast<std::byte*>(out) + skip, static_cast<const std::byte*>(a) + skip,
               static_cast<const std::byte*>(b) + skip, count - head, dtype, op);
}

void widen(float* out, const BFloat16* in, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = to_float(in[i]);
}

void add_widened(float* sum, const BFloat16* in, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += to_float(in[i]);
}

void round_to_bfloat16(BFloat16* out, const float* in, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = to_bfloat16(in[i]);
}

}  // namespace fourfold::comm
