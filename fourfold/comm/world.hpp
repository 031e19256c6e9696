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

  /// Returns when every rank has come here: collective, the last thing that a rank does. Throws
  /// CommError as a wait does; the destructor alone would wait without a deadline.
  void leave();

  /// Ends the job on every rank, with this exit status. Returns only where ranks are threads.
  void abort(const std::string& reason, int status);

 private:
  void add_everyone();

  std::shared_ptr<Core> core_;
  std::unique_ptr<Communicator> everyone_;  // the first lane, for `leave`
  int unwinding_ = 0;                       // exceptions in flight when it was made
};

}  // namespace fourfold::comm
