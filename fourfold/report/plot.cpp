// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/plot.hpp"

#include "fourfold/base/text.hpp"
#include "fourfold/report/html.hpp"

namespace fourfold::report {

std::string open_svg(double width, double height, const std::string& id,
                     const std::string& description) {
  return concat("<svg id=\"", id, "\" role=\"img\" aria-label=\"", escaped(description),
                "\" viewBox=\"0 0 ", px(width), " ", px(height), "\">\n");
}

std::string frame(const Plot& plot, const Scale& x, const Scale& y, const AxisLabels& labels) {
  std::string svg;
  for (const double value : ticks(y.low, y.high, 8)) {
    svg +=
        concat("<line class=\"grid\" x1=\"", px(plot.left), "\" x2=\"", px(plot.right), "\" y1=\"",
               px(y(value)), "\" y2=\"", px(y(value)), "\"/>", "<text class=\"tick end\" x=\"",
               px(plot.left - 6), "\" y=\"", px(y(value) + 4), "\">", number(value), "</text>\n");
  }
  for (const double value : ticks(x.low, x.high, 7, 1)) {
    svg += concat("<line class=\"axis\" x1=\"", px(x(value)), "\" x2=\"", px(x(value)), "\" y1=\"",
                  px(plot.bottom), "\" y2=\"", px(plot.bottom + 4), "\"/>",
                  "<text class=\"tick mid\" x=\"", px(x(value)), "\" y=\"", px(plot.bottom + 18),
                  "\">", number(value, 9), "</text>\n");
  }
  const double middle = (plot.top + plot.bottom) / 2;
  svg += concat("<line class=\"axis\" x1=\"", px(plot.left), "\" x2=\"", px(plot.right), "\" y1=\"",
                px(plot.bottom), "\" y2=\"", px(plot.bottom), "\"/>\n");
  svg += concat("<text class=\"label mid\" x=\"", px((plot.left + plot.right) / 2), "\" y=\"",
                px(plot.bottom + 37), "\">", escaped(labels.x), "</text>\n");
  svg += concat("<text class=\"label mid\" transform=\"translate(13 ", px(middle),
                ") rotate(-90)\">", escaped(labels.y), "</text>\n");
  return svg;
}

}  // namespace fourfold::report
