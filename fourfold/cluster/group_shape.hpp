// Where the members of a group of ranks are: how many of them each host has, and how many groups
// share the links of a host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <iosfwd>
#include <string>

#include "fourfold/grid/grid.hpp"

namespace fourfold::cluster {

/// The speed of a group depends on nothing else. All groups over the same axes of a grid
/// communicate at the same time, so a shape describes the slowest of them.
struct GroupShape {
  int members = 1;
  /// The members on a host. Where hosts have different numbers of members: the smallest number.
  int per_host = 1;
  /// Groups that communicate at once and share the links of a host. Of groups that span hosts only
  /// those count that leave the host.
  int siblings = 1;
  /// The distance in ranks between neighbours on a host; 1 where a host has one member.
  int stride = 1;

  bool spans_hosts() const { return per_host < members; }
  int hosts() const { return (members + per_host - 1) / per_host; }
  auto operator<=>(const GroupShape&) const = default;
};

/// "8 members, 2 a host at distance 2, 2 groups a host".
std::string to_string(const GroupShape& shape);
std::ostream& operator<<(std::ostream& out, const GroupShape& shape);

/// The shape of the groups over `axes` when rank r is on host r / gpus_per_host.
GroupShape shape_of(const grid::Grid& grid, const grid::Axes& axes, int gpus_per_host);

/// The shape of the parts of those groups that have so many ranks (`Grid::part`).
GroupShape part_shape(const grid::Grid& grid, const grid::Axes& axes, int ranks, int gpus_per_host);

/// The shape of the pairs in which each rank at index `from` of its group over `axes` sends to the
/// member at index `to`, all of them at the same time.
GroupShape pair_shape(const grid::Grid& grid, const grid::Axes& axes, int from, int to,
                      int gpus_per_host);

}  // namespace fourfold::cluster
