// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/counters.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "fourfold/base/text.hpp"

namespace fourfold::comm {

Count& Counters::count_of(const Observed& operation) {
  const auto [place, added] = lanes_.try_emplace(operation.lane);
  Lane& lane = place->second;
  if (added) {
    lane.axes = grid::to_string(operation.group.axes);
    lane.group_size = operation.group.size();
  }
  return lane.by_op[static_cast<std::size_t>(operation.collective.op)];
}

void Counters::ended(const Observed& operation, const Run& run) {
  if (operation.number < first_) return;
  const std::lock_guard lock(mutex_);
  Count& count = count_of(operation);
  ++count.calls;
  count.payload += operation.collective.payload();
  count.wire += run.sent;
  count.seconds += run.ended - run.started;
}

void Counters::waited(const Observed& operation, const std::optional<Blocked>& blocked) {
  if (!blocked || operation.number < first_) return;
  const std::lock_guard lock(mutex_);
  // The operation may have ended while the thread began to wait.
  count_of(operation).exposed_seconds += std::max(Seconds(), blocked->until - blocked->since);
}

Counts Counters::sum() const {
  Counts counts;
  for (const auto& [number, lane] : lanes_) {
    for (std::size_t op = 0; op < lane.by_op.size(); ++op) {
      const Count& count = lane.by_op[op];
      // A wait may be known of only after the operation has been taken, where a device waits.
      if (count.calls == 0 && count.exposed_seconds == Seconds()) continue;
      Count& sum = counts[{static_cast<schedule::Op>(op), lane.axes, lane.group_size}];
      sum.calls += count.calls;
      sum.payload += count.payload;
      sum.wire += count.wire;
      sum.seconds += count.seconds;
      sum.exposed_seconds += count.exposed_seconds;
    }
  }
  return counts;
}

Counts Counters::counts() const {
  const std::lock_guard lock(mutex_);
  return sum();
}

void Counters::reset() {
  const std::lock_guard lock(mutex_);
  lanes_.clear();
}

Counts Counters::take() {
  const std::lock_guard lock(mutex_);
  Counts counts = sum();
  lanes_.clear();
  return counts;
}

std::string to_string(const Counts& counts) {
  constexpr const char* kRow = "%-15s %-12s %5s %8s %10s %10s %9s %10s %10s\n";
  std::array<char, 256> row{};
  const auto line = [&](auto... cells) {
    std::snprintf(row.data(), row.size(), kRow, cells...);
    return std::string(row.data());
  };
  std::string text =
      line("operation", "axes", "ranks", "calls", "payload", "sent", "messages", "time", "exposed");
  for (const auto& [key, count] : counts) {
    text += line(std::string(schedule::to_string(key.op)).c_str(), key.axes.c_str(),
                 concat(key.group_size).c_str(), concat(count.calls).c_str(),
                 concat(count.payload).c_str(), concat(count.wire.bytes).c_str(),
                 concat(count.wire.messages).c_str(), concat(count.seconds).c_str(),
                 concat(count.exposed_seconds).c_str());
  }
  return text;
}

}  // namespace fourfold::comm
