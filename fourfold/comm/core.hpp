// The state that a world and its communicators share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "fourfold/comm/engine.hpp"
#include "fourfold/schedule/schedule.hpp"

namespace fourfold::comm {

struct Core {
  int rank = 0;
  int size = 1;
  schedule::Schedule* recorder = nullptr;  ///< where operations are recorded; may be null
  std::unique_ptr<Engine> engine;          ///< null: operations are counted, not executed
  Lanes recorded_lanes;                    ///< used without an engine, for counting
  int ranks_per_host = 1;                  ///< used without an engine
};

}  // namespace fourfold::comm
