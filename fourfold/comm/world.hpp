// One rank's view of the job: its rank, and the communicators that it makes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "fourfold/comm/communicator.hpp"
#include "fourfold/comm/counters.hpp"
#include "fourfold/comm/device.hpp"
#include "fourfold/comm/engine.hpp"
#include "fourfold/comm/observer.hpp"
#include "fourfold/comm/transport.hpp"

namespace fourfold::comm {

/// Announces, while it lives, that this rank does work that may take longer than any deadline. The
/// world must outlive the LongWork.
class LongWork {
 public:
  LongWork(std::shared_ptr<Core> core, const std::string& what);
  LongWork(LongWork&&) noexcept = default;
  LongWork& operator=(LongWork&&) = delete;
  ~LongWork();

 private:
  std::shared_ptr<Core> core_;
};

/// While it lives, an observer of a world is told what the rank does.
class [[nodiscard]] Observation {
 public:
  Observation() = default;
  Observation(std::shared_ptr<Core> core, Observer& observer);
  Observation(Observation&& other) noexcept { *this = std::move(other); }
  Observation& operator=(Observation&& other) noexcept {
    std::swap(core_, other.core_);
    std::swap(observer_, other.observer_);
    return *this;
  }
  ~Observation() { stop(); }

  /// Ends the observation now.
  void stop();

 private:
  std::shared_ptr<Core> core_;
  Observer* observer_ = nullptr;
};

/// A World is made by a backend: `mpi::open`, `thread::run`, `self::open`, `recording::open`. It is
/// move-only. The world must outlive every Work. Communicators may outlive the world, but must not
/// be used then.
class World {
 public:
  World(std::unique_ptr<Transport> transport, const Options& options);
  /// Makes a world that executes nothing. It is `rank` of `size` ranks that do not exist. Each host
  /// has `ranks_per_host` ranks, in order; 0 means that all ranks are on one host.
  World(int rank, int size, int ranks_per_host = 0);
  World(World&&) noexcept = default;
  World& operator=(World&&) = delete;
  /// Finishes the operations under way and leaves the job; collective. While an exception unwinds
  /// the stack the destructor only withdraws: end the job with `abort`, or by leaving the process.
  ~World();

  int rank() const;
  int size() const;
  /// False for a recording world, whose operations do nothing.
  bool executes() const;
  /// The host that a rank runs on.
  std::string host(int rank) const;

  /// How long a wait may last. A recording world has no deadline.
  Seconds deadline() const;

  /// Makes a new lane over `group`. Nothing is sent. A lane has a number, which must be the same on
  /// all members. Here the number follows from the order of the calls: every rank of the world
  /// calls this function for its own group, and `reserve_lanes`, in the same order. The groups of
  /// one such call must be disjoint, as those of `Grid::group` are.
  Communicator communicator(const grid::Group& group);

  /// Sets numbers for `count` lanes aside and returns the first. Nothing is sent. Throws CommError
  /// when the backend has too few.
  int reserve_lanes(int count);
  /// Makes the lane with a number that was set aside. Ranks make such lanes in any order and at any
  /// time, and each rank makes only those that it needs. The members of a group must agree on what
  /// a number means. A rank that uses a lane that another member has not made waits for that
  /// member.
  /// Lanes of one purpose share a stream of a device, on which their collectives run in the order
  /// of issue; see docs/communication.md.
  Communicator communicator(const grid::Group& group, int number, int purpose = 0);

  /// From now on `device` carries out operations on buffers in its memory. Before this a world has
  /// no device, and it can have only one. Not for recording worlds, which need none.
  void use_device(std::unique_ptr<Device> device);
  bool has_device() const;
  /// Returns when the device has done all that it was given. Then observers have been told all
  /// times. Call it at the end of a step, and before Timeline::end_step. Does nothing without a
  /// device.
  void resolve();

  /// Tells observers what the device has done by now. Does not wait, so that operations may last
  /// into the next step, and does nothing without a device.
  void report_ended();
  /// Gives back what the library of the device keeps for communicators, which may be hundreds of
  /// megabytes for each. The communicators of this world stay as they are: the first operation
  /// makes what it needs again. Waits until the device has done all; the ranks leave together.
  /// Collective, and does nothing without a device.
  void release_device_communicators();

  /// What the rank has communicated since the last reset. See Counters. With a device these
  /// functions call `resolve`.
  Counts counters() const;
  void reset_counters();
  Counts take_counters();
  /// The same, of what has ended by now: with a device it calls `report_ended`.
  Counts take_counters_so_far();
  /// The largest amount of temporary memory that operations held so far.
  Bytes scratch_peak() const;

  /// From now on reports what the rank does to `observer`, until the Observation is destroyed:
  ///
  ///     comm::Timeline timeline;
  ///     const comm::Observation observation = world.observe(timeline);
  ///
  /// The observer must outlive the Observation. Only the thread that computes may call this.
  Observation observe(Observer& observer);
  /// Reports that the rank has computed until now, in the phase of the innermost PhaseScope and for
  /// the layer of the innermost LayerScope.
  void computed(std::string_view name, const schedule::Arithmetic& arithmetic) const;
  /// The number of operations that this rank has issued so far.
  std::int64_t operations() const;

  /// Announces, for as long as the LongWork lives, long work of this rank that is no hang, such as
  /// "writing the model". Other ranks wait for this rank however long the work takes. A rank that
  /// dies or stops meanwhile is still found.
  LongWork long_work(const std::string& what);

  /// From now on operations that no thread waits for are advanced at least this often while they
  /// are under way. Otherwise they may rest for some milliseconds, because advancing them takes
  /// time from a core that computes.
  void rest_at_most(Seconds rest);

  /// Longer waits than this are not usual. From now on a wait of this length is looked into before
  /// its deadline: a rank that does not answer then ends the job, and ranks that are only late do
  /// not. They have until the deadline, which becomes thirty times this, and two minutes at least.
  /// Does nothing where a deadline was given.
  void suspect_after(Seconds wait);

  /// The number of control messages that this rank has sent so far. docs/communication.md gives a
  /// bound.
  std::int64_t control_messages() const;

  /// Returns when every rank has called it. Collective, and the last thing that a rank does. Throws
  /// CommError as a wait does; the destructor alone would wait without a deadline.
  void leave();

  /// Gives up all communication. Returns true on the one rank that is to report why the job ends,
  /// which is the lowest of the ranks that gave up first.
  bool fail(const std::string& reason, int status);

  /// Ends the job on every rank with this exit status. Returns only where ranks are threads.
  void abort(const std::string& reason, int status);

 private:
  void begin();

  std::shared_ptr<Core> core_;
  std::unique_ptr<Communicator> everyone_;  // the first lane, for `leave`
  int unwinding_ = 0;                       // exceptions in flight when the world was made
};

}  // namespace fourfold::comm
