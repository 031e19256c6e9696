// One rank's view of the job: who it is, and the communicators that it makes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "fourfold/comm/communicator.hpp"
#include "fourfold/comm/counters.hpp"
#include "fourfold/comm/engine.hpp"
#include "fourfold/comm/transport.hpp"

namespace fourfold::comm {

/// Announces, while it lives, that this rank is at work on something that may take longer than any
/// deadline. The world must outlive it.
class Phase {
 public:
  Phase(std::shared_ptr<Core> core, const std::string& what);
  Phase(Phase&&) noexcept = default;
  Phase& operator=(Phase&&) = delete;
  ~Phase();

 private:
  std::shared_ptr<Core> core_;
};

/// Made by a backend: `mpi::open`, `thread::run`, `self::open`, `recording::open`. Move-only. The
/// world must outlive every Work; communicators may outlive it but not be used.
class World {
 public:
  World(std::unique_ptr<Transport> transport, const Options& options);
  /// Executes nothing: `rank` of `size` ranks that do not exist, so many on each of as many hosts
  /// as they need, in order; 0: all on one.
  World(int rank, int size, int ranks_per_host = 0);
  World(World&&) noexcept = default;
  World& operator=(World&&) = delete;
  /// Finishes what is under way and leaves the job: collective. While an exception unwinds the
  /// stack it only withdraws: end the job with `abort`, or by leaving the process.
  ~World();

  int rank() const;
  int size() const;
  /// False for a recording world: its operations do nothing.
  bool executes() const;
  /// The host that a rank runs on.
  std::string host(int rank) const;

  /// How long a wait may last; none in a recording world.
  Seconds deadline() const;

  /// A new lane over `group`. Sends nothing; every rank of the world calls it for its own group in
  /// the same order. Groups made by one such call must be disjoint, as those of `Grid::group` are.
  Communicator communicator(const grid::Group& group);

  Counts counters() const;
  void reset_counters();
  /// Both at once: what ends in between, behind compute, is not lost.
  Counts take_counters();
  /// The largest amount of temporary memory that operations held so far.
  Bytes scratch_peak() const;

  /// Writes every operation and wait from now on into `schedule`; null stops.
  void record(schedule::Schedule* schedule);

  /// Adds every operation that ends and every wait from now on to `timeline`; null stops. A
  /// recording world has none.
  void trace(Timeline* timeline);

  /// Announces long work of this rank that is no hang, such as "writing the model", for as long as
  /// the Phase lives: others wait for it however long it takes. A rank that dies or stops meanwhile
  /// is found all the same.
  Phase phase(const std::string& what);

  /// Control messages that this rank has sent so far; docs/communication.md has their bound.
  std::int64_t control_messages() const;

  /// Returns when every rank has come here: collective, the last thing that a rank does. Throws
  /// CommError as a wait does; the destructor alone would wait without a deadline.
  void leave();

  /// Gives up all communication. True on the one rank that is to say why the job ends: of those
  /// that give up first, the lowest.
  bool fail(const std::string& reason, int status);

  /// Ends the job on every rank, with this exit status. Returns only where ranks are threads.
  void abort(const std::string& reason, int status);

 private:
  void add_everyone();

  std::shared_ptr<Core> core_;
  std::unique_ptr<Communicator> everyone_;  // the first lane, for `leave`
  int unwinding_ = 0;                       // exceptions in flight when it was made
};

}  // namespace fourfold::comm
