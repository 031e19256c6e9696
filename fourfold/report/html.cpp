// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/html.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "fourfold/base/text.hpp"

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

std::string data_uri(std::string_view type, std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = concat("data:", type, ";base64,");
  // Three bytes are four digits of 6 bits; what is missing at the end is marked.
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const std::size_t at = i + k;
      bits = bits << 8 | (at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      const bool missing = i + k > bytes.size();
      text += missing ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
    }
  }
  return text;
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
