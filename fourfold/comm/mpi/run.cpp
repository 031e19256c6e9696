// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/mpi/run.hpp"

#include <chrono>
#include <thread>

#include "fourfold/base/error.hpp"
#include "fourfold/comm/mpi/mpi.hpp"

namespace fourfold::comm::mpi {

namespace {
/// All ranks read the same input, so all find the same fault in it; the first one's word ends the
/// others before they repeat it.
constexpr std::chrono::seconds kTimeForFirstRank{3};
}  // namespace

int run(const std::function<void(World&)>& body,
        const std::function<void(const std::string&)>& report, const Options& options) {
  World world = open(options);
  try {
    body(world);
    world.leave();
    return 0;
  } catch (const std::exception& error) {
    const auto* ours = dynamic_cast<const Error*>(&error);
    const int status = ours != nullptr ? ours->exit_status() : 1;
    const bool bad_input = dynamic_cast<const ConfigError*>(&error) != nullptr;
    if (bad_input && world.rank() != 0) std::this_thread::sleep_for(kTimeForFirstRank);
    report(bad_input ? error.what() : describe(error));
    world.abort(error.what(), status);
    return status;
  }
}

}  // namespace fourfold::comm::mpi
