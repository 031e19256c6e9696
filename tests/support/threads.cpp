// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/comm/thread/thread.hpp"

#include "tests/support/ranks.hpp"
#include "tests/support/watchdog.hpp"

namespace fourfold::test {

void on_threads(int ranks, const Body& body, const comm::Options& options) {
  const HangWatchdog watchdog(Seconds(240));
  comm::Options own = options;
  // Many ranks share a busy machine; still the engine is to explain a hang before the watchdog.
  if (!own.deadline) own.deadline = Seconds(120);
  try {
    comm::thread::run(
        ranks,
        [&](comm::World& world) {
          const WatchedThread watched;
          body(world);
        },
        own);
  } catch (const std::exception& error) {
    FAIL() << describe(error);
  }
}

}  // namespace fourfold::test
