// The state that a world and its communicators share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>

#include "fourfold/comm/counters.hpp"
#include "fourfold/comm/engine.hpp"
#include "fourfold/schedule/schedule.hpp"

namespace fourfold::comm {

struct Core {
  int rank = 0;
  int size = 1;
  schedule::Schedule* recorder = nullptr;  ///< where to write down what is issued, if anywhere
  std::unique_ptr<Engine> engine;          ///< null: nothing is executed, only counted and recorded
  std::deque<Lane> recorded_lanes;         ///< without an engine, counted as if executed
  int ranks_per_host = 1;                  ///< likewise
};

}  // namespace fourfold::comm
