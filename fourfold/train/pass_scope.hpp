// Which pass of a step a thread runs, for those who watch the nodes (tensor/node_watch).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

namespace fourfold::train {

/// A forward or backward pass of a micro-batch through a stage.
struct PassOfStep {
  std::int64_t micro_batch = 0;
  std::int64_t first_block = 0;  ///< of the stage
};

/// While this object lives, the thread runs such a pass.
class PassScope {
 public:
  PassScope(std::int64_t micro_batch, std::int64_t first_block)
      : outer_(std::exchange(current_, PassOfStep{micro_batch, first_block})) {}
  ~PassScope() { current_ = outer_; }
  PassScope(const PassScope&) = delete;
  PassScope& operator=(const PassScope&) = delete;

  static const PassOfStep& current() { return current_; }

 private:
  static inline thread_local PassOfStep current_;
  PassOfStep outer_;
};

}  // namespace fourfold::train
