// Maps values to places in a chart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace fourfold::report {

/// A linear map of values from `low` to `high` to pixels from `begin` to `end`, which may run
/// backwards.
struct Scale {
  double low = 0;
  double high = 1;
  double begin = 0;
  double end = 1;

  double operator()(double value) const {
    return begin + (value - low) / (high - low) * (end - begin);
  }
};

/// About `count` round values in [low, high] at equal distances of 1, 2 or 5 times a power of ten.
/// `smallest` is the smallest useful distance: 1 for whole numbers.
std::vector<double> ticks(double low, double high, int count, double smallest = 0);

}  // namespace fourfold::report
