// The state that a world and its communicators share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include "fourfold/comm/counters.hpp"
#include "fourfold/comm/device_engine.hpp"
#include "fourfold/comm/engine.hpp"
#include "fourfold/comm/observer.hpp"

namespace fourfold::comm {

struct Core {
  int rank = 0;
  int size = 1;
  Counters counters;  ///< one of the observers, always there
  Observers observers;
  std::atomic<std::int64_t> operations = 0;  ///< issued so far
  std::unique_ptr<Engine> engine;            ///< null: operations are counted, not executed
  std::unique_ptr<DeviceEngine> device;      ///< null: all buffers are in the memory of the host
  Lanes recorded_lanes;                      ///< used without an engine
  int ranks_per_host = 1;                    ///< used without an engine
};

}  // namespace fourfold::comm
