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
  Seconds long_latency;
  BytesPerSecond bandwidth;
};

Speed speed_of(const MeasuredGroup& group) {
  return {group.latency, group.long_latency.value_or(group.latency), group.bandwidth};
}

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
    const Seconds latency = network.inside_latency;
    return {latency, latency, inside_speed(cluster, shape.per_host)};
  }
  const BytesPerSecond rails =
      network.between() * (double(rails_of(cluster, shape.per_host)) / network.nics);
  BytesPerSecond bandwidth = std::min(rails, network.between() * (1.0 / shape.siblings));
  if (shape.per_host > 1) bandwidth = std::min(bandwidth, inside_speed(cluster, shape.per_host));
  // A ring has as many edges as members, and one of them leaves each host.
  const double leaving = double(shape.hosts()) / shape.members;
  const Seconds latency = network.nic_latency * leaving + network.inside_latency * (1 - leaving);
  return {latency, latency, bandwidth};
}

bool same_class(const GroupShape& a, const GroupShape& b) {
  return a.spans_hosts() && b.spans_hosts() && a.per_host == b.per_host &&
         a.siblings == b.siblings && a.stride == b.stride;
}

Speed between(const MeasuredGroup& smaller, const MeasuredGroup& larger, int members) {
  const auto log = [](int number) { return std::log(static_cast<double>(number)); };
  const double part = (log(members) - log(smaller.shape.members)) /
                      (log(larger.shape.members) - log(smaller.shape.members));
  const Speed low = speed_of(smaller);
  const Speed high = speed_of(larger);
  return {low.latency + (high.latency - low.latency) * part,
          low.long_latency + (high.long_latency - low.long_latency) * part,
          low.bandwidth + (high.bandwidth - low.bandwidth) * part};
}

std::optional<Speed> measured(const Network& network, const GroupShape& shape) {
  const MeasuredGroup* low = nullptr;  // the largest group that is not larger
  const MeasuredGroup* high = nullptr;
  for (const MeasuredGroup& group : network.measured) {
    if (group.shape == shape) return speed_of(group);
    if (!same_class(group.shape, shape)) continue;
    const int members = group.shape.members;
    if (members < shape.members && (low == nullptr || members > low->shape.members)) low = &group;
    if (members > shape.members && (high == nullptr || members < high->shape.members))
      high = &group;
  }
  if (low != nullptr && high != nullptr) return between(*low, *high, shape.members);
  const MeasuredGroup* nearest = low != nullptr ? low : high;
  if (nearest == nullptr) return std::nullopt;
  return speed_of(*nearest);
}

}  // namespace

Seconds Link::latency_of(double bytes) const {
  const double from = std::log(static_cast<double>(kShortMessage.value()));
  const double to = std::log(static_cast<double>(kLongMessage.value()));
  const double part = (std::log(std::max(bytes, 1.0)) - from) / (to - from);
  return latency + (long_latency - latency) * std::clamp(part, 0.0, 1.0);
}

Seconds Link::farthest_latency_of(double bytes) const {
  return farthest_latency + latency_of(bytes) - latency;
}

Link Cluster::link(const GroupShape& shape) const {
  FOURFOLD_CHECK(shape.members >= 1 && shape.per_host >= 1 && shape.per_host <= shape.members &&
                     shape.siblings >= 1 && shape.stride >= 1,
                 shape);
  if (shape.members == 1) {
    return {.latency = {},
            .long_latency = {},
            .farthest_latency = {},
            .bandwidth = BytesPerSecond(std::numeric_limits<double>::infinity())};
  }
  const std::optional<Speed> found = measured(network, shape);
  const Speed speed = found ? *found : derived(*this, shape);
  const bool spans = shape.spans_hosts();
  Link link{.latency = speed.latency,
            .long_latency = speed.long_latency,
            .farthest_latency = std::max(speed.latency, spans ? network.nic_latency : Seconds()),
            .bandwidth = speed.bandwidth};
  if (spans) link.nic_load = std::min(1.0, speed.bandwidth / network.between() * shape.siblings);
  if (shape.per_host > 1) link.inside_load = std::min(1.0, speed.bandwidth / network.inside());
  return link;
}

}  // namespace fourfold::cluster
