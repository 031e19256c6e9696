// What one rank does in a training step, as a value. A schedule is recorded from a real run or a
// dry run; the planner computes its cost and the simulator replays it. Replaying it again and again
// is the training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <variant>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/grid/axis.hpp"
#include "fourfold/schedule/collective.hpp"
#include "fourfold/schedule/compute.hpp"
#include "fourfold/schedule/wire.hpp"

namespace fourfold::schedule {

/// An operation handed to its queue (`queue_of`). It runs when all earlier operations of the queue
/// are done. Its members are those of `Grid::part(axes, group_size, rank)`, in this order.
struct Issue {
  Collective collective;
  grid::Axes axes;
  int group_size = 1;
  int index = 0;            ///< the index of this rank in the group
  int lane = 0;             ///< the communicator: the same number on all ranks of the group
  std::int64_t number = 0;  ///< the number of the operation, counted over the whole schedule
  Reach reach = Reach::kHost;

  bool operator==(const Issue&) const = default;
};

/// Operations of one queue run one after the other, in the order in which they are issued. Queues
/// run concurrently. All collectives of a lane form one queue. Its sends to each peer form a queue,
/// and its receives from each peer another: a send never waits for a receive or a collective that
/// was issued before it. A send and its receive are matched by their places in their two queues.
struct Queue {
  int lane = 0;
  int peer = -1;  ///< of sends and receives: an index in the group; -1: the collectives
  bool sends = false;

  auto operator<=>(const Queue&) const = default;
};
Queue queue_of(const Issue& issue);

/// The compute stream is blocked until operation `number` is done. A number below 0 is an operation
/// of the step before, which is equal to this one: -1 is the last one that it issued.
struct Wait {
  std::int64_t number = 0;

  bool operator==(const Wait&) const = default;
};

using Step = std::variant<Compute, Issue, Wait>;

/// Steps in the order of the compute stream.
class Schedule {
 public:
  void compute(Compute step);
  /// Returns the operation's number, for `wait`.
  std::int64_t issue(const Collective& collective, const grid::Axes& axes, int group_size,
                     int index, int lane, Reach reach = Reach::kHost);
  /// Throws InvariantError for an operation of this step that was not issued.
  void wait(std::int64_t number);

  const std::vector<Step>& steps() const { return steps_; }
  std::int64_t operations() const { return operations_; }

  /// What this rank sends in all steps together.
  Traffic traffic() const;

  bool operator==(const Schedule&) const = default;

 private:
  std::vector<Step> steps_;
  std::int64_t operations_ = 0;
};

/// Throws InvariantError unless replaying `step` again and again is what a rank does that has done
/// `before` and then `step`: both issue the same operations, and every operation is waited for
/// once, in its own step or in the next.
void check_periodic(const Schedule& before, const Schedule& step);

/// One line for each step.
std::string to_string(const Step& step);
std::string to_string(const Schedule& schedule);
std::ostream& operator<<(std::ostream& out, const Schedule& schedule);

}  // namespace fourfold::schedule
