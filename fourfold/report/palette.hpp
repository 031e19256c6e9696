// One colour for each set of axes, the same in every chart of a page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "fourfold/comm/timeline.hpp"

namespace fourfold::report {

/// Names of classes to which the page's style sheet gives a colour.
class Palette {
 public:
  explicit Palette(const std::set<std::string>& axes);

  const std::vector<std::string>& axes() const { return axes_; }
  /// "a0" to "a9"; with more sets of axes than that, colours repeat.
  std::string of_axes(const std::string& axes) const;
  /// "compute", "other", "wait", or the class of the operation's axes.
  std::string of_span(const comm::Span& span) const;

 private:
  std::vector<std::string> axes_;
};

struct LegendEntry {
  std::string colour;
  std::string text;
};

std::string legend(const std::vector<LegendEntry>& entries);

}  // namespace fourfold::report
