// A random order that needs no memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fourfold::data {

/// Where `index` of 0, ..., n - 1 comes in the random order that (seed, epoch) gives: a bijection,
/// in constant memory and, on average, constant time. Its values never change, so that a run that
/// is continued by another version sees the same samples.
std::int64_t permute(std::int64_t n, std::uint64_t seed, std::uint64_t epoch, std::int64_t index);

}  // namespace fourfold::data
