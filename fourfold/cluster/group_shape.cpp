// SPDX-License-Identifier: Apache-2.0
#include "fourfold/cluster/group_shape.hpp"

#include <algorithm>
#include <array>
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

/// Ranks at equal distances: those along an axis, or along a part of it.
struct Run {
  int size = 1;
  bool grouped = false;  ///< whether they belong to one group
};

/// The ranks of a grid as runs, fastest first, where groups are parts with so many ranks. Nothing
/// if a part is not made of whole runs.
std::optional<std::vector<Run>> runs_of(const Grid& grid, const Axes& axes, int ranks) {
  std::array<int, grid::kAxisCount> grouped{1, 1, 1, 1, 1};
  for (std::size_t a = axes.size(); a-- > 0;) {  // the last axis is the fastest of a group
    const int size = grid.size(axes[a]);
    const int here = std::min(size, ranks);
    if (size % here != 0 || ranks % here != 0) return std::nullopt;
    grouped[grid::index_of(axes[a])] = here;
    ranks /= here;
  }
  std::vector<Run> runs;
  for (const Axis axis : grid.placement()) {
    const int here = grouped[grid::index_of(axis)];
    runs.push_back({here, true});
    runs.push_back({grid.size(axis) / here, false});
  }
  return runs;
}

/// The shape where all hosts have the same part of the grid: whole runs and equal pieces of at most
/// one other run. Nothing for other grids.
std::optional<GroupShape> regular_shape(const std::vector<Run>& runs, int members, int all,
                                        int gpus_per_host) {
  GroupShape shape{.members = members};
  int room = std::min(gpus_per_host, all);  // ranks of a host that inner runs leave
  if (all % room != 0) return std::nullopt;
  int stride = 1;
  for (const Run& run : runs) {
    const int here = std::min(room, run.size);
    if (room % here != 0 || run.size % here != 0) return std::nullopt;
    room /= here;
    if (run.grouped && here > 1) {
      if (shape.per_host == 1) shape.stride = stride;
      shape.per_host *= here;
    }
    stride *= run.size;
  }
  shape.siblings = std::min(gpus_per_host, all) / shape.per_host;
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

/// Looks at groups one by one. `leaves`: whether all of them have members on further hosts.
class Count {
 public:
  Count(int members, int gpus_per_host, bool leaves)
      : members_(members), gpus_per_host_(gpus_per_host), leaves_(leaves) {}

  /// The members of a group in increasing order.
  void add(const std::vector<int>& members) {
    ByHost hosts;
    for (const int member : members) hosts[member / gpus_per_host_].push_back(member);
    GroupShape shape{.members = members_, .per_host = members_};
    for (const auto& [host, here] : hosts) {
      ++(leaves_ || hosts.size() > 1 ? leaving_ : staying_)[host];
      shape.per_host = std::min(shape.per_host, static_cast<int>(here.size()));
    }
    if (shape.per_host > 1) shape.stride = smallest_distance(hosts.begin()->second);
    if (!worst_ || worse(shape, *worst_)) worst_ = shape;
  }

  GroupShape shape() const {
    const auto most = [](const std::map<int, int>& counts) {
      int largest = 0;
      for (const auto& [host, count] : counts) largest = std::max(largest, count);
      return largest;
    };
    GroupShape shape = *worst_;
    shape.siblings = most(shape.spans_hosts() ? leaving_ : staying_);
    return shape;
  }

 private:
  int members_;
  int gpus_per_host_;
  bool leaves_;
  std::optional<GroupShape> worst_;
  std::map<int, int> leaving_;  // by host: the groups that also have members elsewhere
  std::map<int, int> staying_;
};

/// The distances of ranks along the grouped runs, or along the others, in increasing order.
std::vector<int> along(const std::vector<Run>& runs, bool grouped) {
  std::vector<int> ranks = {0};
  int stride = 1;
  for (const Run& run : runs) {
    if (run.grouped == grouped) {
      std::vector<int> more;
      for (int i = 0; i < run.size; ++i) {
        for (const int rank : ranks) more.push_back(rank + i * stride);
      }
      ranks = std::move(more);
    }
    stride *= run.size;
  }
  return ranks;
}

/// Counts the groups on the first hosts that are full of whole runs: all other hosts are like
/// these.
GroupShape counted_shape(const std::vector<Run>& runs, int members, int gpus_per_host) {
  std::vector<Run> first;
  int count = 1;   // ranks
  int beyond = 1;  // a group has so many times as many members on other hosts
  for (const Run& run : runs) {
    int here = 1;  // once hosts are full, the other ranks are at distances of whole hosts
    while (count * here % gpus_per_host != 0 && here < run.size) {
      do {
        ++here;
      } while (run.size % here != 0);
    }
    first.push_back({here, run.grouped});
    count *= here;
    if (run.grouped) beyond *= run.size / here;
  }
  Count counted(members, gpus_per_host, beyond > 1);
  const std::vector<int> others = along(first, true);
  for (const int begin : along(first, false)) {
    std::vector<int> group;
    for (const int other : others) group.push_back(begin + other);
    counted.add(group);
  }
  return counted.shape();
}

/// The same from all groups of all ranks.
GroupShape counted_shape(const Grid& grid, const Axes& axes, int ranks, int gpus_per_host) {
  Count counted(ranks, gpus_per_host, false);
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    std::vector<int> members = grid.part(axes, ranks, rank).members;
    std::sort(members.begin(), members.end());
    if (members.front() == rank) counted.add(members);  // each group once
  }
  return counted.shape();
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
  return part_shape(grid, axes, grid.size(axes), gpus_per_host);
}

GroupShape part_shape(const Grid& grid, const Axes& axes, int ranks, int gpus_per_host) {
  FOURFOLD_CHECK(gpus_per_host > 0);
  const auto runs = runs_of(grid, axes, ranks);
  if (!runs) return counted_shape(grid, axes, ranks, gpus_per_host);
  if (const auto shape = regular_shape(*runs, ranks, grid.ranks(), gpus_per_host)) return *shape;
  return counted_shape(*runs, ranks, gpus_per_host);
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
  std::vector<int> senders = {member_of(grid, axes, {}, from)};
  const int distance = member_of(grid, axes, {}, to) - senders.front();
  for (const grid::Axis axis : grid::kAllAxes) {
    // Ranks at a distance of whole hosts are on hosts that are like the first ones.
    if (axes.contains(axis) || grid.stride(axis) % gpus_per_host == 0) continue;
    std::vector<int> more;
    for (int i = 0; i < grid.size(axis); ++i) {
      for (const int rank : senders) more.push_back(rank + i * grid.stride(axis));
    }
    senders = std::move(more);
  }
  std::map<int, int> leaving;  // by host: the ranks that send to another host
  std::map<int, int> staying;
  for (const int rank : senders) {
    const int host = rank / gpus_per_host;
    ++((rank + distance) / gpus_per_host == host ? staying : leaving)[host];
  }
  const bool spans = !leaving.empty();
  int siblings = 1;
  for (const auto& [host, count] : spans ? leaving : staying) siblings = std::max(siblings, count);
  return {.members = 2,
          .per_host = spans ? 1 : 2,
          .siblings = siblings,
          .stride = spans ? 1 : std::abs(distance)};
}

}  // namespace fourfold::cluster
