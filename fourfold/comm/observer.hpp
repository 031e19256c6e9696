// What a rank does, reported while it happens to those who want to know: recorders of schedules,
// timelines, counters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/schedule/compute.hpp"
#include "fourfold/schedule/wire.hpp"

namespace fourfold::comm {

/// An operation, as observers see it. What it refers to is valid during the call.
struct Observed {
  std::int64_t number = 0;  ///< of the operations of this rank, counted from 0
  const schedule::Collective& collective;
  const grid::Group& group;
  int lane = 0;
  schedule::Reach reach = schedule::Reach::kHost;
};

/// A stretch of arithmetic, as observers see it. What it refers to is valid during the call.
struct Computed {
  std::string_view name;
  const schedule::Arithmetic& arithmetic;
  schedule::Phase phase = schedule::Phase::kForward;
  std::string_view layer{};  ///< empty: none
  Seconds until{};           ///< when it ended; 0: on a device, where that is known later (`timed`)
};

/// What it took to run an operation. Both times are 0 where there was nothing to wait for: in a
/// group of one, and in a recording world.
struct Run {
  schedule::Traffic sent;
  Seconds started;
  Seconds ended;
};

/// A time during which an operation blocked compute.
struct Blocked {
  Seconds since;
  Seconds until;      ///< the end of the operation
  Seconds resumed{};  ///< when compute went on; 0: now
};

/// Observers must not communicate. An observer overrides what it wants to know.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  /// The rank has computed until now, or has handed a device what to compute.
  virtual void computed(const Computed&) {}
  /// Whether the observer wants `timed`.
  virtual bool wants_times() const { return false; }
  /// What a device has computed, once more when its end is known. Compute and waits of a device are
  /// reported in their order.
  virtual void timed(const Computed&) {}
  /// An operation is handed to its lane, for `layer`.
  virtual void issued(const Observed&, std::string_view /*layer*/) {}
  /// An operation has ended. Any thread may report this, but only one at a time.
  virtual void ended(const Observed&, const Run&) {}
  /// The rank waits for the operation of that number. If the operation has ended, the wait takes no
  /// time. On a device it is the compute stream that waits; the rank goes on.
  virtual void awaited(std::int64_t /*number*/) {}
  /// The rank has waited for an operation that was sent over a transport. `blocked` is empty if the
  /// operation had ended before. On a device this is reported when the times are known.
  virtual void waited(const Observed&, const std::optional<Blocked>& /*blocked*/) {}
  /// The rank begins work that is no step, such as "validating", and ends the one that it began
  /// last.
  virtual void work_began(std::string_view /*what*/) {}
  virtual void work_ended() {}
  /// The rank ends the job because it has waited for too long. Ranks in `silent` did not answer.
  virtual void gave_up(const std::vector<int>& /*silent*/) {}
};

/// The observers of one rank, in the order in which they were added. Only the thread that computes
/// adds, removes and reports; other threads only report `ended`.
class Observers {
 public:
  void add(Observer& observer);
  void remove(Observer& observer);

  /// Calls report(observer) for each observer.
  template <class Report>
  void tell(const Report& report) const {
    for (Observer* observer : list_) report(*observer);
  }
  void ended(const Observed& operation, const Run& run) const;
  /// Whether any of them wants `timed`.
  bool want_times() const;

 private:
  mutable std::mutex mutex_;  // between a change of the list and `ended`
  std::vector<Observer*> list_;
};

}  // namespace fourfold::comm
