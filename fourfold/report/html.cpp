// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/html.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace fourfold::report {

std::string escaped(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string px(double value) {
  return number(std::round(value * 10) / 10 + 0.0, 9);  // + 0.0 avoids a minus before zero
}

std::string number(double value, int digits) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

}  // namespace fourfold::report
