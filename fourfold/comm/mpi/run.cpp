// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/mpi/run.hpp"

#include <chrono>
#include <thread>

#include "fourfold/base/error.hpp"
#include "fourfold/comm/mpi/mpi.hpp"
#include "fourfold/comm/mpi/start_watch.hpp"

namespace fourfold::comm::mpi {

namespace {

/// The time for another rank to report why the job ends and to end this one.
constexpr std::chrono::seconds kTimeForOther{5};

World open_in_time(const Report& report, const Options& options) {
  const StartWatch watch(report, options);
  return open(options);
}

}  // namespace

int run(const std::function<void(World&)>& body, const Report& report, const Options& options) {
  World world = open_in_time(report, options);
  try {
    body(world);
    world.leave();
    return 0;
  } catch (const std::exception& error) {
    const auto* ours = dynamic_cast<const Error*>(&error);
    const int status = ours != nullptr ? ours->exit_status() : 1;
    if (world.fail(error.what(), status)) {
      report(describe(error));
      if (options.verbose && !details(error).empty()) report(details(error));
    } else {
      std::this_thread::sleep_for(kTimeForOther);
    }
    if (world.size() > 1) world.abort(error.what(), status);
    return status;
  }
}

}  // namespace fourfold::comm::mpi
