// A random order that needs no memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fourfold::data {

/// The place of `index` of 0, ..., n - 1 in the random order that (seed, epoch) gives. It is a
/// bijection, in constant memory and, on average, constant time. Its values must never change, so
/// that a run that is continued by another version sees the same samples.
std::int64_t permute(std::int64_t n, std::uint64_t seed, std::uint64_t epoch, std::int64_t index);

}  // namespace fourfold::data
