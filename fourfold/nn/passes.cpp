// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/passes.hpp"

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::nn {

void Passes::check_free() const {
  if (state_ != State::kFree) throw InvariantError(name_ + " belongs to another optimizer");
}

void Passes::begin_step(std::int64_t count) {
  state_ = State::kStep;
  count_ = count;
  begun_ = 0;
  completed_ = false;
}

void Passes::begin_pass(int open_uses) {
  if (state_ == State::kFree || state_ == State::kIdle) {
    throw InvariantError(name_ + ": begin_pass outside a step of its optimizer");
  }
  if (begun_ == count_) {
    throw InvariantError(concat(name_, ": begin_pass for pass ", begun_ + 1,
                                " of a step that begin_step was told to have ", count_));
  }
  // Open uses belong to passes that overlap, as in a pipeline.
  if (state_ == State::kPass && !completed_ && open_uses == 0) {
    throw InvariantError(concat(name_, ": pass ", begun_, " of ", count_,
                                " has not completed its gradient; each begin_pass is for one "
                                "backward pass, and graphs without one need at::NoGradGuard"));
  }
  state_ = State::kPass;
  ++begun_;
  completed_ = false;
}

void Passes::arrive() const {
  if (state_ == State::kIdle) {
    throw InvariantError(name_ +
                         ": a gradient outside a step; call AdamW::begin_step before the "
                         "first backward pass of each step");
  }
  if (state_ == State::kStep) {
    throw InvariantError(name_ +
                         ": a gradient outside a pass; call begin_pass before each "
                         "backward pass");
  }
  if (state_ == State::kPass && completed_) {
    throw InvariantError(name_ +
                         ": more gradients after this pass has completed its gradient; "
                         "call begin_pass before each backward pass");
  }
}

void Passes::check_done(int open_uses) const {
  if (begun_ != count_) {
    throw InvariantError(concat("reduce_gradients after ", begun_, " of the ", count_,
                                " passes that begin_step was told; call begin_pass before each "
                                "backward pass"));
  }
  if (completed_) return;
  if (open_uses == 0) throw InvariantError(name_ + " has no gradient");
  throw InvariantError(name_ +
                       ": a graph that uses it has had no backward pass; make graphs that "
                       "need none under at::NoGradGuard, or let go of them");
}

}  // namespace fourfold::nn
