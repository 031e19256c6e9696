// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/palette.hpp"

#include <algorithm>

#include "fourfold/base/text.hpp"
#include "fourfold/report/html.hpp"

namespace fourfold::report {

namespace {
constexpr std::size_t kColours = 10;
}  // namespace

Palette::Palette(const std::set<std::string>& axes) : axes_(axes.begin(), axes.end()) {
  // Single axes come first, so that their colours are the same on most pages.
  std::stable_partition(axes_.begin(), axes_.end(), [](const std::string& name) {
    return name.find('+') == std::string::npos && name != "all";
  });
}

std::string Palette::of_axes(const std::string& axes) const {
  const auto place = std::find(axes_.begin(), axes_.end(), axes) - axes_.begin();
  return concat("a", static_cast<std::size_t>(place) % kColours);
}

std::string Palette::of_span(const comm::Span& span) const {
  switch (span.kind) {
    case comm::Span::Kind::kCompute:
      return span.name == comm::kOther ? "other" : "compute";
    case comm::Span::Kind::kWait:
      return "wait";
    case comm::Span::Kind::kOperation:
      return of_axes(span.axes);
  }
  return "other";
}

std::string legend(const std::vector<LegendEntry>& entries) {
  std::string html = "<ul class=\"legend\">";
  for (const LegendEntry& entry : entries) {
    html += concat("<li><i class=\"", entry.colour, "\"></i>", escaped(entry.text), "</li>");
  }
  return html + "</ul>\n";
}

}  // namespace fourfold::report
