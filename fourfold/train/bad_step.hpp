// A step whose loss or gradient is infinite or not a number, and what a second run of it has shown.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "fourfold/base/error.hpp"
#include "fourfold/train/not_finite.hpp"

namespace fourfold::train {

struct BadStep {
  std::int64_t number = 0;
  NotFinite first;                  ///< in the first run
  std::optional<NotFinite> second;  ///< in the second run; none: all was finite
  std::string layer;  ///< where the second run went wrong first (`Inspection::first_bad`)

  /// Whether both runs went wrong in the same way: the cause is in the weights or in the samples,
  /// and not in a fault that passes.
  bool reproducible() const { return second == first; }
};

/// Ends a run at a step whose numbers are not finite.
class BadNumbers : public Error {
 public:
  BadNumbers(const std::string& line, std::int64_t step) : Error(line), step_(step) {}
  std::int64_t step() const { return step_; }

 private:
  std::int64_t step_;
};

/// One line for the user, without what became of the step.
std::string describe(const BadStep& step);

/// Ends a run in which one step after the other updates nothing: it would train no more, and its
/// checkpoints would take the place of good ones.
class SkippedSteps {
 public:
  static constexpr int kMostInARow = 10;

  /// Must be called after each step. Throws Error when it is one too many.
  void after(std::int64_t step, bool skipped);

 private:
  int in_a_row_ = 0;
};

}  // namespace fourfold::train
