// The learning rate of each step: it rises linearly, then falls as half a cosine to the smallest
// rate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fourfold::optim {

/// The learning rate of every step of a run.
struct LearningRate {
  double largest = 3e-4;
  double smallest = 3e-5;
  std::int64_t warmup = 0;  ///< steps until the largest rate
  std::int64_t steps = 1;   ///< of the whole run; its last step has the smallest rate

  /// The rate of step 1, 2, ..., steps.
  double at(std::int64_t step) const;
};

}  // namespace fourfold::optim
