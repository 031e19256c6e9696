// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/counters.hpp"

#include <array>
#include <cstdio>

#include "fourfold/base/text.hpp"

namespace fourfold::comm {

void add_counts(Counts& counts, const grid::Group& group, const CountsByOp& lane) {
  for (std::size_t op = 0; op < lane.size(); ++op) {
    if (lane[op].calls == 0) continue;
    Count& sum = counts[{static_cast<schedule::Op>(op), to_string(group.axes), group.size()}];
    sum.calls += lane[op].calls;
    sum.payload += lane[op].payload;
    sum.wire += lane[op].wire;
    sum.seconds += lane[op].seconds;
    sum.exposed_seconds += lane[op].exposed_seconds;
  }
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
