// SPDX-License-Identifier: Apache-2.0
#include "fourfold/cluster/group_shape.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <ostream>
#include <vector>

#include "fourfold/base/check.hpp"

namespace fourfold::cluster {

namespace {

using grid::Axes;
using grid::Axis;
using grid::Grid;

/// The shape where all hosts have the same part of the grid: whole axes and equal pieces of at most
/// one other axis. Nothing for other grids.
std::optional<GroupShape> regular_shape(const Grid& grid, const Axes& axes, int gpus_per_host) {
  GroupShape shape{.members = grid.size(axes)};
  int room = std::min(gpus_per_host, grid.ranks());  // ranks of a host that inner axes leave
  if (grid.ranks() % room != 0) return std::nullopt;
  for (const Axis axis : grid.placement()) {
    const int here = std::min(room, grid.size(axis));
    if (room % here != 0 || grid.size(axis) % here != 0) return std::nullopt;
    room /= here;
    if (!axes.contains(axis) || here == 1) continue;
    if (shape.per_host == 1) shape.stride = grid.stride(axis);
    shape.per_host *= here;
  }
  shape.siblings = std::min(gpus_per_host, grid.ranks()) / shape.per_host;
  return shape;
}

/// The members of one group by host. Hosts and the members of each are in increasing order.
using ByHost = std::map<int, std::vector<int>>;

int smallest_distance(const std::vector<int>& ranks) {
  int distance = 0;
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const int next = ranks[i] - ranks[i - 1];
    distance = distance == 0 ? next : std::min(distance, next);
  }
  return std::max(distance, 1);
}

/// The worse of two shapes: one that spans hosts, then one with fewer members on a host.
bool worse(const GroupShape& a, const GroupShape& b) {
  if (a.spans_hosts() != b.spans_hosts()) return a.spans_hosts();
  return a.per_host < b.per_host;
}

GroupShape counted_shape(const Grid& grid, const Axes& axes, int ranks, int gpus_per_host) {
  std::optional<GroupShape> worst;
  std::map<int, int> leaving;  // by host: the groups that also have members elsewhere
  std::map<int, int> staying;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    std::vector<int> members = grid.part(axes, ranks, rank).members;
    std::sort(members.begin(), members.end());
    if (members.front() != rank) continue;  // each group once
    ByHost hosts;
    for (const int member : members) hosts[member / gpus_per_host].push_back(member);
    GroupShape shape{.members = static_cast<int>(members.size())};
    shape.per_host = shape.members;
    for (const auto& [host, here] : hosts) {
      ++(hosts.size() > 1 ? leaving : staying)[host];
      shape.per_host = std::min(shape.per_host, static_cast<int>(here.size()));
    }
    if (shape.per_host > 1) shape.stride = smallest_distance(hosts.begin()->second);
    if (!worst || worse(shape, *worst)) worst = shape;
  }
  const auto most = [](const std::map<int, int>& counts) {
    int largest = 0;
    for (const auto& [host, count] : counts) largest = std::max(largest, count);
    return largest;
  };
  worst->siblings = most(worst->spans_hosts() ? leaving : staying);
  return *worst;
}

}  // namespace

std::string to_string(const GroupShape& shape) {
  return concat(shape.members, " members, ", shape.per_host, " a host at distance ", shape.stride,
                ", ", shape.siblings, " groups a host");
}

std::ostream& operator<<(std::ostream& out, const GroupShape& shape) {
  return out << to_string(shape);
}

GroupShape shape_of(const Grid& grid, const Axes& axes, int gpus_per_host) {
  FOURFOLD_CHECK(gpus_per_host > 0);
  if (const auto shape = regular_shape(grid, axes, gpus_per_host)) return *shape;
  return counted_shape(grid, axes, grid.size(axes), gpus_per_host);
}

GroupShape part_shape(const Grid& grid, const Axes& axes, int ranks, int gpus_per_host) {
  if (ranks == grid.size(axes)) return shape_of(grid, axes, gpus_per_host);
  FOURFOLD_CHECK(gpus_per_host > 0);
  return counted_shape(grid, axes, ranks, gpus_per_host);
}

namespace {

/// The rank at this index of a rank's group, without the other members.
int member_of(const Grid& grid, const Axes& axes, grid::Coord coord, int index) {
  for (std::size_t a = axes.size(); a-- > 0;) {
    coord[axes[a]] = index % grid.size(axes[a]);
    index /= grid.size(axes[a]);
  }
  return grid.rank_of(coord);
}

}  // namespace

GroupShape pair_shape(const Grid& grid, const Axes& axes, int from, int to, int gpus_per_host) {
  FOURFOLD_CHECK(gpus_per_host > 0 && from != to);
  std::map<int, int> leaving;  // by host: the ranks that send to another host
  std::map<int, int> staying;
  int distance = 1;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const grid::Coord coord = grid.coord_of(rank);
    if (grid.index_along(axes, coord) != from) continue;
    const int peer = member_of(grid, axes, coord, to);
    distance = std::abs(peer - rank);
    const int host = rank / gpus_per_host;
    ++(peer / gpus_per_host == host ? staying : leaving)[host];
  }
  const bool spans = !leaving.empty();
  int siblings = 1;
  for (const auto& [host, count] : spans ? leaving : staying) siblings = std::max(siblings, count);
  return {.members = 2,
          .per_host = spans ? 1 : 2,
          .siblings = siblings,
          .stride = spans ? 1 : distance};
}

}  // namespace fourfold::cluster
