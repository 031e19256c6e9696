// What was communicated, by operation and group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "fourfold/base/units.hpp"
#include "fourfold/comm/observer.hpp"
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

/// Counts the operations that a rank reports. Any thread may read the counts.
class Counters final : public Observer {
 public:
  /// Operations with a smaller number than `first` do not count.
  explicit Counters(std::int64_t first = 0) : first_(first) {}

  Counts counts() const;
  void reset();
  /// Returns the counts and resets them in one step, so that an operation that ends in between is
  /// not lost.
  Counts take();

  void ended(const Observed& operation, const Run& run) override;
  void waited(const Observed& operation, const std::optional<Blocked>& blocked) override;

 private:
  struct Lane {
    std::string axes;
    int group_size = 1;
    std::array<Count, 8> by_op;
  };

  Count& count_of(const Observed& operation);
  Counts sum() const;

  const std::int64_t first_;
  mutable std::mutex mutex_;  // guards everything below
  std::unordered_map<int, Lane> lanes_;
};

/// A table for people, with one line for each key.
std::string to_string(const Counts& counts);

}  // namespace fourfold::comm
