// The frame of a chart: axes with ticks and labels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/report/scale.hpp"

namespace fourfold::report {

/// The size of a chart in pixels, and the area for its data.
struct Plot {
  double width = 520;
  double height = 300;
  double left = 58;
  double right = 510;
  double top = 12;
  double bottom = 256;

  Scale x(double low, double high) const { return {low, high, left, right}; }
  Scale y(double low, double high) const { return {low, high, bottom, top}; }
};

/// Opens <svg> with a description for people who cannot see it. The caller must close it.
std::string open_svg(double width, double height, const std::string& id,
                     const std::string& description);

struct AxisLabels {
  std::string x;
  std::string y;
};

/// Draws lines at the ticks, their values and the names of the axes. Values of x are whole numbers.
std::string frame(const Plot& plot, const Scale& x, const Scale& y, const AxisLabels& labels);

}  // namespace fourfold::report
