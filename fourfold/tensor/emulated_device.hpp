// A slower device than the one that computes, so that many ranks on few cores take the time that
// they would take with a device each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <unordered_map>

#include "fourfold/comm/observer.hpp"

namespace fourfold::tensor {

/// How fast a device computes. A rate of 0 takes no time.
struct DeviceRates {
  FlopsPerSecond flops{};
  BytesPerSecond bytes{};

  bool any() const { return flops.value() > 0 || bytes.value() > 0; }
  /// Either the arithmetic or the memory takes longer.
  Seconds time_of(const schedule::Arithmetic& arithmetic) const;
};

/// "2.00 GFLOP/s and 4.00 GB/s".
std::string to_string(const DeviceRates& rates);

/// While it observes a world, a rank that has computed sleeps until such a device would have, and
/// communication goes on meanwhile. Everything else stays real. It must observe before a timeline
/// does, so that the timeline sees the time of the device.
///
/// The device has a clock of its own. It begins each piece of work when it has ended the one before
/// and when the operations have ended that the rank has waited for. The rank may be behind this
/// clock for a while, and catches up where the device would compute for longer.
class EmulatedDevice final : public comm::Observer {
 public:
  explicit EmulatedDevice(const DeviceRates& rates) : rates_(rates) {}

  /// Between steps the device is idle: what is waited for there is no lag.
  void begin_step();
  void end_step();

  /// The time in all steps so far in which the device would have waited or ended its step, but this
  /// machine still computed. Steps are longer by up to that time.
  Seconds lag() const { return lag_; }
  /// The duration of all steps so far.
  Seconds in_steps() const { return in_steps_; }

  void computed(const comm::Computed& computed) override;
  void ended(const comm::Observed& operation, const comm::Run& run) override;
  void waited(const comm::Observed& operation,
              const std::optional<comm::Blocked>& blocked) override;

 private:
  DeviceRates rates_;
  Seconds clock_;  // when the device has done all of its work so far
  Seconds begin_;  // of the step
  bool in_step_ = false;
  Seconds lag_;
  Seconds in_steps_;
  std::mutex mutex_;                                // guards the ends
  std::unordered_map<std::int64_t, Seconds> ends_;  // of operations, until they are waited for
};

}  // namespace fourfold::tensor
