// Ends a test that hangs, after saying where each rank stands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "fourfold/base/units.hpp"

namespace fourfold::test {

/// While it lives: if `limit` passes, prints a stack trace of every registered thread with its rank
/// and ends the process with status 70.
class HangWatchdog {
 public:
  explicit HangWatchdog(Seconds limit);
  HangWatchdog(const HangWatchdog&) = delete;
  HangWatchdog& operator=(const HangWatchdog&) = delete;
  ~HangWatchdog();

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

/// Registers the calling thread with the watchdogs while it lives.
class WatchedThread {
 public:
  WatchedThread();
  WatchedThread(const WatchedThread&) = delete;
  WatchedThread& operator=(const WatchedThread&) = delete;
  ~WatchedThread();
};

}  // namespace fourfold::test
