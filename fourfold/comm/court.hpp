// Who of many ranks may act for all: ask the others where they are, or end the job and say why.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "fourfold/base/units.hpp"

namespace fourfold::comm {

/// What one rank at a time may do.
enum class Right : std::int32_t { kAsk, kEnd };
inline constexpr std::size_t kRights = 2;

/// How long a rank keeps a right. After that it counts as gone, and another one may have it.
inline constexpr Seconds kRightLasts{20};

/// An arbiter's record of one right. The first claim opens a short hearing; at its end the claim
/// that comes first in order wins, and everyone who claims later is told the winner.
class Court {
 public:
  /// `rank` claims the right. Lower orders come first.
  void hear(int rank, int order, Seconds at);

  struct Ruling {
    int holder = -1;
    std::vector<int> claimants;  ///< who must be told
  };
  /// The ruling on all open claims, once it is due.
  std::optional<Ruling> rule(Seconds at);

 private:
  std::vector<std::pair<int, int>> claims_;  // order and rank
  Seconds opened_;
  int holder_ = -1;
  Seconds given_;
};

/// The ranks that may be asked for a right, in the order in which they are asked: each is only
/// asked when the one before it does not answer. They are likely to be on different hosts.
std::vector<int> arbiters(int ranks);

}  // namespace fourfold::comm
