// The state of a parameter in the training step of its optimizer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace fourfold::nn {

/// The backward passes of a step, as one parameter sees them. A parameter without an optimizer has
/// no passes, and may get gradients at any time. A parameter with an optimizer gets its gradients
/// within passes, and each pass completes the gradient once. Anything else throws InvariantError
/// that names the parameter and the call that is missing. Otherwise the numbers would be wrong,
/// since the sum over the replicas begins as soon as the last pass has completed a gradient.
class Passes {
 public:
  /// The passes of the parameter `name`.
  explicit Passes(std::string name) : name_(std::move(name)) {}

  /// Throws when an optimizer has taken over the parameter.
  void check_free() const;
  /// Says that an optimizer takes the parameter over.
  void adopt() { state_ = State::kIdle; }
  void release() { state_ = State::kFree; }

  /// Begins a step of `count` passes.
  void begin_step(std::int64_t count);
  /// Must be called before a backward pass. `open_uses` is the number of uses of the parameter that
  /// no backward pass has reached yet.
  void begin_pass(int open_uses);
  /// Says that the gradient of a use arrives. Throws outside of a pass.
  void arrive() const;
  /// Says that the gradients of all uses have arrived.
  void complete() { completed_ = true; }
  /// Whether the current pass is the last of its step.
  bool last() const { return state_ == State::kPass && begun_ == count_; }
  /// Throws unless all passes have begun and have completed the gradient.
  void check_done(int open_uses) const;
  void end_step() { state_ = State::kIdle; }

 private:
  enum class State { kFree, kIdle, kStep, kPass };

  std::string name_;
  State state_ = State::kFree;
  std::int64_t count_ = 0;
  std::int64_t begun_ = 0;
  bool completed_ = false;  // whether the current pass has completed the gradient
};

}  // namespace fourfold::nn
