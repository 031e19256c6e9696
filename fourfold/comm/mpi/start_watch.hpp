// Notices when the ranks do not find each other at the start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "fourfold/comm/mpi/run.hpp"

namespace fourfold::comm::mpi {

/// Lives while this process joins the others. If that takes longer than `Options::start_time`, rank
/// 0 reports a line with what may help. After the deadline, or at once if that is shorter, the
/// process ends with status 1. Nothing else can be done, since MPI's own calls do not return.
class StartWatch {
 public:
  StartWatch(const Report& report, const Options& options);
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;
  ~StartWatch();

 private:
  void watch(const Report& report, const Options& options);
  bool joined_within(Seconds time);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool joined_ = false;
  std::thread thread_;
};

/// The network interfaces of this host, as "eth0 10.0.0.1, ib0 10.1.0.1".
std::string interfaces();

}  // namespace fourfold::comm::mpi
