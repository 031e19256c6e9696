// What was communicated, by operation and group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "fourfold/base/units.hpp"
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
  Bytes payload;            ///< of the whole tensors
  schedule::Traffic wire;   ///< what this rank really sent
  Seconds seconds;          ///< from an operation's first message to its end
  Seconds exposed_seconds;  ///< in which compute stood still for it
};

using Counts = std::map<CounterKey, Count>;

class Counters {
 public:
  void add_finished(const CounterKey& key, const Count& count);
  void add_exposed(const CounterKey& key, Seconds seconds);
  Counts snapshot() const;
  void reset();

 private:
  mutable std::mutex mutex_;
  Counts counts_;
};

/// A table for people, one line a key.
std::string to_string(const Counts& counts);

}  // namespace fourfold::comm
