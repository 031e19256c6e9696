// The schedules of the places of a pipeline, prepared for their replay: what every step costs, and
// which operations wait for each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/plan/operation_time.hpp"
#include "fourfold/schedule/schedule.hpp"

namespace fourfold::plan {

/// Operations that run one after the other: a queue of one place, or equal queues of several places
/// whose operations begin when all of these places have issued them.
struct Channel {
  enum class Kind : std::uint8_t {
    kCollective,
    kPair,    ///< sends of one place and receives of another
    kSend,    ///< sends between ranks of one place
    kReceive  ///< their receives
  };

  Kind kind = Kind::kCollective;
  std::vector<std::size_t> places;  ///< of a pair: the sender, then the receiver
  /// The operations of one step in order, as one of the places issues them.
  std::vector<const schedule::Issue*> issues;
  std::vector<OperationTime> times;
};

/// A step of the compute stream. Operations of groups of one rank are left out.
struct Instruction {
  enum class Kind : std::uint8_t { kCompute, kIssue, kWait };

  Kind kind = Kind::kCompute;
  bool previous = false;  ///< the wait is for an operation of the step before
  std::uint32_t channel = 0;
  std::uint32_t position = 0;  ///< the place of the operation in a step of its channel
  double seconds = 0;          ///< of compute
  const schedule::Step* step = nullptr;
};

/// The seconds in a step in which all NICs of a host are used in full.
struct NicTime {
  double own = 0;     ///< by the operations of the place
  double others = 0;  ///< by equal operations of ranks that do not keep step with the place

  double all() const { return own + others; }
};

/// Ranks of a host with different indices along data and pipe wait for each other rarely. Those of
/// them that come later to a shared NIC stay behind, until they use it in turn. So each has the NIC
/// for itself, but for the time in which the others use it.
struct Program {
  std::vector<std::vector<Instruction>> places;
  std::vector<Channel> channels;
  int apart = 1;             ///< the most groups of a host that use its NICs in turn
  std::vector<NicTime> out;  ///< by place
  std::vector<NicTime> in;
};

/// The groups over `axes` on a host that use its NICs in turn: those with different indices along
/// data and pipe that do not communicate with each other in the operation.
int groups_in_turn(const grid::Grid& grid, const grid::Axes& axes, int gpus_per_host);

/// The schedule at index i is that of the ranks whose index along pipe is i. One schedule alone,
/// without operations over pipe, may be that of any place. The schedules must outlive the program.
/// Throws InvariantError when they do not belong together.
Program prepare(const std::vector<schedule::Schedule>& places, const grid::Grid& grid,
                const cluster::Cluster& cluster);

}  // namespace fourfold::plan
