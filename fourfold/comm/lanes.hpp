// The communicators of one rank, by number, and the operations that are under way in each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "fourfold/comm/counters.hpp"
#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

struct Lane;

/// An operation handed to the engine.
struct Issued {
  Issued() {}  // NOLINT: not defaulted, or all of it is set to zero first

  schedule::Collective collective;
  Lane* lane = nullptr;
  std::int64_t number = 0;  ///< in its lane, among operations of its kind
  OperationPtr operation;
  Buffers buffers;  ///< kept to keep the memory that they own alive
  schedule::Traffic sent;
  bool held = false;  ///< held back while compute waits for another operation of the network
  Seconds submitted;  ///< set while a timeline is kept
  std::string layer;  ///< the layer that issued it; set while a timeline is kept
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
  CountsByOp counts{};
  Queue collectives;
  std::map<std::pair<int, bool>, Queue> pairs;  ///< by peer, and whether it is a send
};

/// The numbers of lanes are given out in order, one or several at a time. A lane with a given
/// number may be made at any time later, or never.
class Lanes {
 public:
  /// The next `count` numbers; returns the first.
  int reserve(int count) { return std::exchange(reserved_, reserved_ + count); }
  int reserved() const { return reserved_; }

  /// Makes the lane of a reserved number. It stays at its address.
  Lane& add(const grid::Group& group, int number, schedule::Reach reach);
  /// The lane of that number, or null where this rank has not made it.
  const Lane* find(int number) const;

  Counts counts() const;
  void reset_counts();

 private:
  int reserved_ = 0;
  std::map<int, Lane> lanes_;
};

}  // namespace fourfold::comm
