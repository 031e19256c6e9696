// The time that a communication operation takes when nothing but its sibling groups communicates.
// docs/planning.md derives the formulas.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/base/units.hpp"
#include "fourfold/cluster/cluster.hpp"
#include "fourfold/cluster/group_shape.hpp"
#include "fourfold/schedule/collective.hpp"

namespace fourfold::plan {

/// First the latency passes, in which nothing is sent, and then the transfer, during which the
/// operation uses these shares of the links. Other operations may make the transfer longer.
struct OperationTime {
  Seconds latency;
  Seconds transfer;
  double inside_load = 0;
  double nic_load = 0;
  /// The part of the latency in which some members are done and others have not begun. It is hidden
  /// where an operation follows another one in its queue: members go on to the next operation as
  /// soon as their own part is done.
  Seconds fill{};
  /// What a member has on its way at a time. Where operations share a link, each gets a part of it
  /// in proportion to this.
  Bytes in_flight{1};
  int apart = 1;  ///< so many groups of a host use its NICs in turn, this one at the time above

  Seconds total() const { return latency + transfer; }
  bool operator==(const OperationTime&) const = default;
};

/// The operation as the cluster's library runs it. For a send or receive, `shape` is that of the
/// pairs (`cluster::pair_shape`).
OperationTime time_of(const schedule::Collective& collective, const cluster::GroupShape& shape,
                      const cluster::Cluster& cluster);

}  // namespace fourfold::plan
