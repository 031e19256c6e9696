// Where a parameter is in the training step of its optimizer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace fourfold::nn {

/// The backward passes of a step, as one parameter sees them. A parameter that no optimizer has
/// taken over has none, and gets gradients at any time. The others get theirs within passes, and
/// each pass completes each of them once: whatever else happens throws InvariantError that names
/// the parameter and the call that is missing. The numbers would be wrong otherwise, since the sum
/// over the replicas begins as soon as the last pass has completed a gradient.
class Passes {
 public:
  /// Of the parameter of that name.
  explicit Passes(std::string name) : name_(std::move(name)) {}

  /// Throws when an optimizer has the parameter.
  void check_free() const;
  /// An optimizer takes it over.
  void adopt() { state_ = State::kIdle; }
  void release() { state_ = State::kFree; }

  /// A step of so many passes.
  void begin_step(std::int64_t count);
  /// Before a backward pass; `open_uses` of the parameter are still to be reached by one.
  void begin_pass(int open_uses);
  /// A use's gradient comes.
  void arrive() const;
  /// The gradients of all uses have come.
  void complete() { completed_ = true; }
  /// Whether the present pass is the last of its step.
  bool last() const { return state_ == State::kPass && begun_ == count_; }
  /// Throws unless all passes have begun and completed the gradient.
  void check_done(int open_uses) const;
  void end_step() { state_ = State::kIdle; }

 private:
  enum class State { kFree, kIdle, kStep, kPass };

  std::string name_;
  State state_ = State::kFree;
  std::int64_t count_ = 0;
  std::int64_t begun_ = 0;
  bool completed_ = false;  // the present one
};

}  // namespace fourfold::nn
