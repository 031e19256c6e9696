// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/scale.hpp"

#include <algorithm>
#include <cmath>

#include "fourfold/base/check.hpp"

namespace fourfold::report {

std::vector<double> ticks(double low, double high, int count, double smallest) {
  FOURFOLD_CHECK(low < high && count > 0, "no ticks from ", low, " to ", high);
  const double wanted = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  double distance = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= wanted * (1 - 1e-9)) distance = factor * power;
  }
  distance = std::max(distance, smallest);
  std::vector<double> values;
  // The values are multiples of the distance, so that errors do not accumulate.
  for (double i = std::ceil(low / distance - 1e-9); i * distance <= high + distance * 1e-9; ++i) {
    values.push_back(i == 0 ? 0 : i * distance);
  }
  return values;
}

}  // namespace fourfold::report
