// Decides which of many ranks may act for all of them. That rank asks the others where they are, or
// ends the job and reports why.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "fourfold/base/units.hpp"

namespace fourfold::comm {

/// What only one rank at a time may do.
enum class Right : std::int32_t { kAsk, kEnd };
inline constexpr std::size_t kRights = 2;

/// How long a rank keeps a right that it does not give back. After this time the rank counts as
/// gone, and another rank may get the right. A rank that is told that another one has the right
/// looks again after so long.
inline constexpr Seconds kRightLasts{20};

/// An arbiter's record of one right. The first claim opens a short hearing. At the end of the
/// hearing the claim with the lowest order wins. Ranks that claim later are told the winner.
class Court {
 public:
  /// Records that `rank` claims the right. Lower orders win.
  void hear(int rank, int order, Seconds at);

  /// The rank gives the right back, or takes back its claim. Another rank may then get it.
  void release(int rank);

  struct Ruling {
    int holder = -1;
    std::vector<int> claimants;  ///< the ranks that must be told
  };
  /// The ruling on all open claims, or nothing while the hearing lasts.
  std::optional<Ruling> rule(Seconds at);

 private:
  std::vector<std::pair<int, int>> claims_;  // order and rank
  Seconds opened_;
  int holder_ = -1;
  Seconds given_;
};

/// The ranks that may be asked for a right, in the order in which they are asked. Each one is only
/// asked when the one before does not answer. The ranks are likely to be on different hosts.
std::vector<int> arbiters(int ranks);

}  // namespace fourfold::comm
