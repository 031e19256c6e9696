// The speed of a group: as measured, or from the links of the cluster.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "fourfold/base/check.hpp"
#include "fourfold/cluster/cluster.hpp"

namespace fourfold::cluster {

namespace {

struct Speed {
  Seconds latency;
  BytesPerSecond bandwidth;
};

/// What a device can exchange with the other members on its host.
BytesPerSecond inside_speed(const Cluster& cluster, int per_host) {
  const int others = std::max(cluster.gpus_per_host - 1, 1);
  const bool mesh = cluster.network.topology == Topology::kMesh;
  return cluster.network.inside() * (mesh ? std::min(1.0, double(per_host - 1) / others) : 1.0);
}

/// The NICs that one group can use at once. NCCL makes a ring for each NIC that is near a member;
/// our own ring leaves a host in one place.
int rails_of(const Cluster& cluster, int per_host) {
  if (cluster.network.library == Library::kFourfold) return 1;
  const int near = std::max(cluster.network.nics / cluster.gpus_per_host, 1);
  return std::min(cluster.network.nics, per_host * near);
}

Speed derived(const Cluster& cluster, const GroupShape& shape) {
  const Network& network = cluster.network;
  if (!shape.spans_hosts()) {
    return {network.inside_latency, inside_speed(cluster, shape.per_host)};
  }
  const BytesPerSecond rails =
      network.between() * (double(rails_of(cluster, shape.per_host)) / network.nics);
  BytesPerSecond bandwidth = std::min(rails, network.between() * (1.0 / shape.siblings));
  if (shape.per_host > 1) bandwidth = std::min(bandwidth, inside_speed(cluster, shape.per_host));
  // A ring has as many edges as members, and one of them leaves each host.
  const double leaving = double(shape.hosts()) / shape.members;
  return {network.nic_latency * leaving + network.inside_latency * (1 - leaving), bandwidth};
}

bool same_class(const GroupShape& a, const GroupShape& b) {
  return a.spans_hosts() && b.spans_hosts() && a.per_host == b.per_host &&
         a.siblings == b.siblings && a.stride == b.stride;
}

Speed between(const MeasuredGroup& low, const MeasuredGroup& high, int members) {
  const auto log = [](int number) { return std::log(static_cast<double>(number)); };
  const double part =
      (log(members) - log(low.shape.members)) / (log(high.shape.members) - log(low.shape.members));
  return {low.latency + (high.latency - low.latency) * part,
          low.bandwidth + (high.bandwidth - low.bandwidth) * part};
}

std::optional<Speed> measured(const Network& network, const GroupShape& shape) {
  const MeasuredGroup* low = nullptr;  // the largest group that is not larger
  const MeasuredGroup* high = nullptr;
  for (const MeasuredGroup& group : network.measured) {
    if (group.shape == shape) return Speed{group.latency, group.bandwidth};
    if (!same_class(group.shape, shape)) continue;
    const int members = group.shape.members;
    if (members < shape.members && (low == nullptr || members > low->shape.members)) low = &group;
    if (members > shape.members && (high == nullptr || members < high->shape.members))
      high = &group;
  }
  if (low != nullptr && high != nullptr) return between(*low, *high, shape.members);
  const MeasuredGroup* nearest = low != nullptr ? low : high;
  if (nearest == nullptr) return std::nullopt;
  return Speed{nearest->latency, nearest->bandwidth};
}

}  // namespace

Link Cluster::link(const GroupShape& shape) const {
  FOURFOLD_CHECK(shape.members >= 1 && shape.per_host >= 1 && shape.per_host <= shape.members &&
                     shape.siblings >= 1 && shape.stride >= 1,
                 shape);
  if (shape.members == 1) {
    return {.latency = {},
            .farthest_latency = {},
            .bandwidth = BytesPerSecond(std::numeric_limits<double>::infinity())};
  }
  const std::optional<Speed> found = measured(network, shape);
  const Speed speed = found ? *found : derived(*this, shape);
  const bool spans = shape.spans_hosts();
  Link link{.latency = speed.latency,
            .farthest_latency = std::max(speed.latency, spans ? network.nic_latency : Seconds()),
            .bandwidth = speed.bandwidth};
  if (spans) link.nic_load = std::min(1.0, speed.bandwidth / network.between() * shape.siblings);
  if (shape.per_host > 1) link.inside_load = std::min(1.0, speed.bandwidth / network.inside());
  return link;
}

}  // namespace fourfold::cluster
