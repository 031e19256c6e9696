// Writes what a rank does into a schedule.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>

#include "fourfold/comm/observer.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/schedule/schedule.hpp"

namespace fourfold::comm {

/// A wait is recorded where its operation was recorded.
class Recorder final : public Observer {
 public:
  /// The schedule must live as long as the recorder observes.
  explicit Recorder(schedule::Schedule& schedule) : schedule_(&schedule) {}

  void computed(std::string_view name, Flops flops, Bytes bytes, std::string_view layer) override;
  void issued(const Observed& operation, std::string_view layer) override;
  void awaited(std::int64_t number) override;

 private:
  schedule::Schedule* schedule_;
  std::unordered_map<std::int64_t, std::int64_t> recorded_;  // numbers there, by numbers here
};

/// While this object lives, everything that the rank does is written into `schedule`.
class Recording {
 public:
  Recording(World& world, schedule::Schedule& schedule)
      : recorder_(schedule), observation_(world.observe(recorder_)) {}

  void stop() { observation_.stop(); }

 private:
  Recorder recorder_;
  Observation observation_;
};

}  // namespace fourfold::comm
