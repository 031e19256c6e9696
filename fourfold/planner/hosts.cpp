// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/hosts.hpp"

#include <set>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::planner {

namespace {

/// Ranks that follow each other on one host.
struct Stretch {
  std::string host;
  int ranks = 0;
};

std::string count_of(const Stretch& stretch) {
  return concat(stretch.host, " has ", stretch.ranks);
}

}  // namespace

std::string uneven_hosts(const std::vector<std::string>& hosts) {
  std::vector<Stretch> all;
  std::set<std::string> seen;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const std::string& host = hosts[rank];
    if (all.empty() || all.back().host != host) {
      if (!seen.insert(host).second) {
        return concat("the ranks of host ", host, " do not follow each other: rank ", rank - 1,
                      " is on ", hosts[rank - 1], ", and rank ", rank, " is on ", host, " again");
      }
      all.push_back({host, 0});
    }
    ++all.back().ranks;
  }
  for (const Stretch& one : all) {
    if (one.ranks != all.front().ranks) {
      return concat("host ", count_of(all.front()), all.front().ranks == 1 ? " rank" : " ranks",
                    ", and host ", count_of(one));
    }
  }
  return {};
}

std::string uneven_hosts(const comm::World& world) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world.size(); ++rank) hosts.push_back(world.host(rank));
  return uneven_hosts(hosts);
}

int ranks_per_host(const comm::World& world) {
  const std::string uneven = uneven_hosts(world);
  if (!uneven.empty()) {
    throw ConfigError(
        concat("every host must have as many ranks, one host after the other, but ", uneven));
  }
  int ranks = 0;
  while (ranks < world.size() && world.host(ranks) == world.host(0)) ++ranks;
  return ranks;
}

}  // namespace fourfold::planner
