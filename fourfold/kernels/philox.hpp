// Philox 4x32-10 for many counters at once. The numbers are those of ATen's engine
// (at::Philox4_32).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fourfold::kernels {

/// out[4*i .. 4*i+3] = the four words of counter `first + i` of the stream (key, row).
void philox_words(std::uint32_t* out, std::uint64_t key, std::uint64_t row, std::uint64_t first,
                  std::int64_t counters);

}  // namespace fourfold::kernels
