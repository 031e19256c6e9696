// The phase of a training step in which a thread computes; schedules and timelines name it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "fourfold/schedule/compute.hpp"

namespace fourfold::comm {

/// While this object lives, everything that the thread computes belongs to `phase`. Outside of any
/// scope it belongs to the forward pass. Whoever runs passes sets the scope: the trainer, the
/// pipeline, checkpointed blocks and the optimizer.
class PhaseScope {
 public:
  explicit PhaseScope(schedule::Phase phase) : outer_(std::exchange(current_, phase)) {}
  ~PhaseScope() { current_ = outer_; }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

  static schedule::Phase current() { return current_; }

 private:
  static inline thread_local schedule::Phase current_ = schedule::Phase::kForward;
  schedule::Phase outer_;
};

}  // namespace fourfold::comm
