// How well predicted times agree with measured ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace fourfold::train {

/// A time that was predicted, and the time that was measured for the same.
struct PredictedAndMeasured {
  double predicted = 0;
  double measured = 0;
};

struct Accuracy {
  /// Spearman's rank correlation: 1 if the predicted order is the measured one. Equal values share
  /// the mean of their ranks.
  double rank_correlation = 1;
  double median_error = 0;  ///< of |predicted / measured - 1|
  double worst_error = 0;
  /// The measured time of what was predicted to be the fastest, over the shortest measured time.
  double choice = 1;
};

/// Throws InvariantError for fewer than two pairs and for times that are not positive.
Accuracy accuracy_of(const std::vector<PredictedAndMeasured>& pairs);

/// "12 plans: rank correlation 0.98, median error 3.1%, worst 12.0%; the first plan takes 1.02
/// times as long as the fastest".
std::string to_string(const Accuracy& accuracy, std::size_t plans);

}  // namespace fourfold::train
