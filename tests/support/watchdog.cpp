// SPDX-License-Identifier: Apache-2.0
#include "tests/support/watchdog.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <execinfo.h>
#include <pthread.h>
#include <unistd.h>
#include <vector>

#include "fourfold/base/error.hpp"

namespace fourfold::test {

namespace {

std::mutex registry_mutex;
std::vector<pthread_t> registry;
std::atomic<int> printed{0};

void print_stack(int) {
  std::array<void*, 48> frames{};
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  std::array<char, 64> head{};
  const int length =
      std::snprintf(head.data(), head.size(), "--- rank %d hangs here:\n", this_rank());
  [[maybe_unused]] auto written =
      write(STDERR_FILENO, head.data(), static_cast<std::size_t>(length));
  backtrace_symbols_fd(frames.data(), depth, STDERR_FILENO);
  ++printed;
}

void report_and_exit() {
  std::signal(SIGUSR2, print_stack);
  const std::lock_guard lock(registry_mutex);
  for (std::size_t i = 0; i < registry.size(); ++i) {
    pthread_kill(registry[i], SIGUSR2);
    // One after the other, so that the traces do not mix.
    for (int tries = 0; tries < 100 && printed <= static_cast<int>(i); ++tries) usleep(10000);
  }
  _exit(70);
}

}  // namespace

WatchedThread::WatchedThread() {
  const std::lock_guard lock(registry_mutex);
  registry.push_back(pthread_self());
}

WatchedThread::~WatchedThread() {
  const std::lock_guard lock(registry_mutex);
  registry.erase(std::find(registry.begin(), registry.end(), pthread_self()));
}

HangWatchdog::HangWatchdog(Seconds limit)
    : thread_([this, limit] {
        std::unique_lock lock(mutex_);
        const auto time = std::chrono::duration<double>(limit.value());
        if (!ended_.wait_for(lock, time, [this] { return end_; })) report_and_exit();
      }) {}

HangWatchdog::~HangWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

}  // namespace fourfold::test
