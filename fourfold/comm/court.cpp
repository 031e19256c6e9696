// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/court.hpp"

#include <algorithm>

namespace fourfold::comm {

namespace {
/// How long the first claim stays open for claims with a lower order.
constexpr Seconds kHearing{0.25};
}  // namespace

void Court::hear(int rank, int order, Seconds at) {
  if (claims_.empty()) opened_ = at;
  claims_.emplace_back(order, rank);
}

void Court::release(int rank) {
  if (holder_ == rank) holder_ = -1;
  std::erase_if(claims_, [&](const auto& claim) { return claim.second == rank; });
}

std::optional<Court::Ruling> Court::rule(Seconds at) {
  if (claims_.empty()) return std::nullopt;
  const bool held = holder_ >= 0 && at - given_ < kRightLasts;
  if (!held && at - opened_ < kHearing) return std::nullopt;
  if (!held) holder_ = std::ranges::min(claims_).second;
  Ruling ruling{holder_, {}};
  for (const auto& [order, rank] : std::exchange(claims_, {})) {
    if (rank == holder_) given_ = at;
    ruling.claimants.push_back(rank);
  }
  return ruling;
}

std::vector<int> arbiters(int ranks) {
  std::vector<int> found;
  for (const int rank : {0, ranks / 2, ranks - 1}) {
    if (found.empty() || found.back() != rank) found.push_back(rank);
  }
  return found;
}

}  // namespace fourfold::comm
