// SPDX-License-Identifier: Apache-2.0
#include "fourfold/launch/stop_signal.hpp"

#include <atomic>
#include <csignal>

namespace fourfold::launch {

namespace {

std::atomic<bool> requested{false};

void remember(int) {
  requested = true;
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
}

bool stop_requested() {
  return requested;
}

}  // namespace fourfold::launch
