// Loops over many tokens, compiled to vectors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fourfold::data {

/// The largest of `count` tokens; 0 if there are none.
std::uint32_t largest(const std::uint16_t* tokens, std::int64_t count);
std::uint32_t largest(const std::uint32_t* tokens, std::int64_t count);

/// out[i] = tokens[i].
void widen(const std::uint16_t* tokens, std::int64_t count, std::int64_t* out);
void widen(const std::uint32_t* tokens, std::int64_t count, std::int64_t* out);

}  // namespace fourfold::data
