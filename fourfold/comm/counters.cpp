// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/counters.hpp"

#include <array>
#include <cstdio>

#include "fourfold/base/text.hpp"

namespace fourfold::comm {

void Counters::add_finished(const CounterKey& key, const Count& count) {
  const std::lock_guard lock(mutex_);
  Count& sum = counts_[key];
  sum.calls += count.calls;
  sum.payload += count.payload;
  sum.wire += count.wire;
  sum.seconds += count.seconds;
}

void Counters::add_exposed(const CounterKey& key, Seconds seconds) {
  const std::lock_guard lock(mutex_);
  counts_[key].exposed_seconds += seconds;
}

Counts Counters::snapshot() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void Counters::reset() {
  const std::lock_guard lock(mutex_);
  counts_.clear();
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
