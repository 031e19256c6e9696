// What a rank communicates, counted or written down by hand: calls and payload by operation and
// axes, and the bytes and messages that it sends for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>

#include "fourfold/comm/counters.hpp"

namespace fourfold::test {

struct Calls {
  std::int64_t calls = 0;
  std::int64_t payload = 0;
  std::int64_t bytes = 0;
  std::int64_t messages = 0;
  bool operator==(const Calls&) const = default;
};

/// By operation and axes.
using CallsBy = std::map<std::pair<schedule::Op, std::string>, Calls>;

/// From the counters of a rank.
CallsBy counted(const comm::Counts& counts);

/// Where two of them differ, for people; empty if they do not.
std::string difference(const CallsBy& counted, const CallsBy& expected);

}  // namespace fourfold::test
