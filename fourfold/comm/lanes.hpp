// The communicators of one rank, by number, and the operations that are under way in each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "fourfold/comm/device.hpp"
#include "fourfold/comm/observer.hpp"
#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

struct Lane;

/// An operation handed to the engine or to the device.
struct Issued {
  Issued() {}  // NOLINT: not defaulted, or all of it is set to zero first

  schedule::Collective collective;
  Lane* lane = nullptr;
  std::int64_t number = 0;       ///< in its lane, among operations of its kind
  std::int64_t of_rank = 0;      ///< among all operations of the rank, for observers
  OperationPtr operation;        ///< of the engine
  Device::LaunchedPtr launched;  ///< of the device; read by other threads after `is_launched`
  std::atomic<bool> is_launched{false};
  std::atomic<bool> begun{false};  ///< the device has come to it
  Memory memory = Memory::kHost;   ///< where it runs
  Buffers buffers;                 ///< kept to keep the memory that they own alive
  schedule::Traffic sent;
  bool held = false;  ///< held back while compute waits for another operation of the network
  Seconds started;
  Seconds ended;
  std::atomic<bool> done{false};
  bool failed = false;  ///< read after `done`
};
using IssuedPtr = std::shared_ptr<Issued>;

/// Operations that run one after the other, in the order in which they were issued.
using Queue = std::deque<IssuedPtr>;

/// The operations of one communicator. Collectives form one queue. Sends to and receives from each
/// peer form queues of their own, so that a send never waits for a receive that was issued before.
struct Lane {
  grid::Group group;
  schedule::Reach reach = schedule::Reach::kHost;
  int id = 0;                     ///< its number, the same on every member
  std::int64_t issued = 0;        ///< collectives issued: the same number on every member
  std::int64_t pairs_issued = 0;  ///< sends and receives issued: each member has its own number
  int purpose = 0;                ///< lanes of one purpose share a stream of a device
  Queue collectives;
  Queue on_device;  ///< operations of the device that are not done, in the order of issue
  std::map<std::pair<int, bool>, Queue> pairs;  ///< by peer, and whether it is a send
};

/// The operation as observers see it.
inline Observed observed(const Issued& issued) {
  return {issued.of_rank, issued.collective, issued.lane->group, issued.lane->id,
          issued.lane->reach};
}

/// The numbers of lanes are given out in order, one or several at a time. A lane with a given
/// number may be made at any time later, or never.
class Lanes {
 public:
  /// The next `count` numbers; returns the first.
  int reserve(int count) { return std::exchange(reserved_, reserved_ + count); }
  int reserved() const { return reserved_; }

  /// Makes the lane of a reserved number. It stays at its address.
  Lane& add(const grid::Group& group, int number, schedule::Reach reach, int purpose = 0);
  /// The lane of that number, or null where this rank has not made it.
  const Lane* find(int number) const;
  /// Calls visit(lane) for each lane that has been made.
  template <class Visit>
  void visit(const Visit& visit) {
    for (auto& [number, lane] : lanes_) visit(lane);
  }

 private:
  int reserved_ = 0;
  std::map<int, Lane> lanes_;
};

}  // namespace fourfold::comm
