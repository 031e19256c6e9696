// What was communicated, by operation and group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>

#include "fourfold/base/units.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/schedule/wire.hpp"

namespace fourfold::comm {

struct CounterKey {
  schedule::Op op = schedule::Op::kBarrier;
  std::string axes;  ///< "x", "y+x", ...
  int group_size = 1;

  auto operator<=>(const CounterKey&) const = default;
};

/// Sums over the finished operations of one key, on one rank.
struct Count {
  std::int64_t calls = 0;
  Bytes payload;            ///< the bytes of the whole tensors
  schedule::Traffic wire;   ///< what this rank really sent
  Seconds seconds;          ///< from an operation's first message to its end
  Seconds exposed_seconds;  ///< time that compute was blocked by these operations
};

using Counts = std::map<CounterKey, Count>;

/// The counts of one lane, by schedule::Op.
using CountsByOp = std::array<Count, 8>;

/// Adds the counts of a lane to the counts of its axes. Operations without calls are skipped.
void add_counts(Counts& counts, const grid::Group& group, const CountsByOp& lane);

/// A table for people, with one line for each key.
std::string to_string(const Counts& counts);

}  // namespace fourfold::comm
