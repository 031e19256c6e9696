// SPDX-License-Identifier: Apache-2.0
#include "fourfold/optim/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fourfold::optim {

double LearningRate::at(std::int64_t step) const {
  if (step <= warmup) return largest * static_cast<double>(step) / static_cast<double>(warmup);
  if (step >= steps) return smallest;
  const double done = static_cast<double>(step - warmup) /
                      static_cast<double>(std::max<std::int64_t>(1, steps - warmup));
  return smallest + (largest - smallest) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace fourfold::optim
