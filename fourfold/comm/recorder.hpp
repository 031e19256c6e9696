// Writes what a rank does into a schedule.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/observer.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/schedule/schedule.hpp"

namespace fourfold::comm {

/// A wait for an operation from before the recording is recorded with a negative number: -1 is the
/// operation that was issued last.
class Recorder final : public Observer {
 public:
  /// The schedule must be empty and live as long as the recorder observes. `first` is the number
  /// of the first operation that it will be told of.
  Recorder(schedule::Schedule& schedule, std::int64_t first)
      : schedule_(&schedule), first_(first) {}

  void computed(const Computed& computed) override;
  void issued(const Observed& operation, std::string_view layer) override;
  void awaited(std::int64_t number) override;

 private:
  schedule::Schedule* schedule_;
  std::int64_t first_;
};

/// While this object lives, everything that the rank does is written into `schedule`.
class Recording {
 public:
  Recording(World& world, schedule::Schedule& schedule)
      : recorder_(schedule, world.operations()), observation_(world.observe(recorder_)) {}

  void stop() { observation_.stop(); }

 private:
  Recorder recorder_;
  Observation observation_;
};

}  // namespace fourfold::comm
