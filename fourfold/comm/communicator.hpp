// Collective and point-to-point operations of one group of ranks. docs/communication.md defines
// what each operation does, in which order it sums and what it sends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fourfold/comm/buffer.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/schedule/collective.hpp"

namespace fourfold::comm {

struct Core;    // the world's shared state
struct Issued;  // an operation under way
struct Lane;

/// A handle to one or more operations under way. Move-only.
///
/// After `wait` the result may be read and the buffers may be reused. If a handle is destroyed
/// while its operation is under way, the destructor waits for the operation. If an exception is
/// unwinding the stack, the rank gives up all its communication instead, since the buffers may be
/// about to disappear.
class [[nodiscard]] Work {
 public:
  Work() = default;
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  /// Blocks until all operations are done. Throws CommError when a rank failed or the deadline
  /// passed. Calling it again does nothing.
  void wait();

  /// Whether all operations are done, without blocking.
  bool test();

 private:
  friend class Communicator;
  struct Part {
    std::shared_ptr<Issued> issued;  ///< null: the operation was done at once
    std::int64_t number = 0;         ///< among all operations of the rank
  };

  std::shared_ptr<Core> core_;
  SmallList<Part> parts_;
  int unwinding_ = 0;  // exceptions in flight when the handle was made
};

/// One group of ranks and its lane. Operations run in the order in which they are issued, and all
/// members must issue the same operations in the same order. Sends and receives are only ordered
/// relative to other transfers in the same direction between the same two ranks.
///
/// All operations are asynchronous. Sizes and dtypes must agree on all members. An operation on an
/// empty tensor must be issued like any other. A list of tensors (of one dtype) is sent as one
/// operation. Copies of a Communicator share its lane.
class Communicator {
 public:
  int rank() const { return group().index; }  ///< in the group
  int size() const { return group().size(); }
  const grid::Group& group() const;
  int lane() const;

  /// data = the sum or maximum over the group, with the same bits on every rank.
  Work all_reduce(View data, ReduceOp op = ReduceOp::kSum,
                  Priority priority = Priority::kUrgent) const;
  Work all_reduce(std::vector<View> list, ReduceOp op = ReduceOp::kSum,
                  Priority priority = Priority::kUrgent) const;

  /// out = the `in` of all members, one after the other; out.count = size() * in.count. `in` may be
  /// the memory at this rank's place in `out`.
  Work all_gather(ConstView in, View out, Priority priority = Priority::kUrgent) const;
  Work all_gather(std::vector<InOut> list, Priority priority = Priority::kUrgent) const;

  /// out = this rank's chunk of the sum; in.count = size() * out.count. `out` may be this rank's
  /// chunk of `in`.
  Work reduce_scatter(ConstView in, View out, ReduceOp op = ReduceOp::kSum,
                      Priority priority = Priority::kUrgent) const;
  Work reduce_scatter(std::vector<InOut> list, ReduceOp op = ReduceOp::kSum,
                      Priority priority = Priority::kUrgent) const;

  /// data = the data of the root.
  Work broadcast(View data, int root, Priority priority = Priority::kUrgent) const;
  Work broadcast(std::vector<View> list, int root, Priority priority = Priority::kUrgent) const;

  /// out = the sum or maximum, at the root. On other ranks `out` is not touched and may be empty.
  Work reduce(ConstView in, View out, int root, ReduceOp op = ReduceOp::kSum,
              Priority priority = Priority::kUrgent) const;
  Work reduce(std::vector<InOut> list, int root, ReduceOp op = ReduceOp::kSum,
              Priority priority = Priority::kUrgent) const;

  /// Sends to, or receives from, another member.
  Work send(ConstView data, int peer, Priority priority = Priority::kUrgent) const;
  Work recv(View data, int peer, Priority priority = Priority::kUrgent) const;

  /// Issues sends and receives that start together and are waited for with one handle.
  struct Sending {
    ConstView data;
    int peer = 0;
  };
  struct Receiving {
    View data;
    int peer = 0;
  };
  Work transfer(std::vector<Sending> sends, std::vector<Receiving> receives,
                Priority priority = Priority::kUrgent) const;

  /// The barrier is done when every member has issued it.
  Work barrier() const;

 private:
  friend class World;
  Communicator(std::shared_ptr<Core> core, Lane& lane) : core_(std::move(core)), lane_(&lane) {}

  Work issue(schedule::Collective collective, Buffers&& list) const;
  Work make_work() const;
  Work::Part start(const schedule::Collective& collective, Buffers&& list) const;
  std::int64_t announce(const schedule::Collective& collective) const;
  void check(const schedule::Collective& collective, const Buffers& list) const;

  std::shared_ptr<Core> core_;
  Lane* lane_ = nullptr;
};

}  // namespace fourfold::comm
