// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/value.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "fourfold/base/text.hpp"

namespace fourfold::config {

namespace {

/// The longest value in a message, so that the line stays readable.
constexpr std::size_t kLongestShown = 120;

std::string text_of(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  // The shortest text that reads back as this number has at most 24 characters.
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  std::string text(digits.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";  // else it would be an integer
  return text;
}

struct ToToml {
  std::string operator()(bool flag) const { return flag ? "true" : "false"; }
  std::string operator()(std::int64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const { return text_of(number); }
  std::string operator()(const std::string& text) const { return quote(text); }
  std::string operator()(const std::vector<Value>& items) const {
    std::vector<std::string> texts;
    for (const Value& item : items) texts.push_back(to_toml(item));
    return "[" + join(texts, ", ") + "]";
  }
  std::string operator()(const Other& other) const { return std::string(other.name); }
};

}  // namespace

std::string to_toml(const Value& value) {
  return std::visit(ToToml{}, value.held);
}

std::string shown(const Value& value) {
  return shorten(to_toml(value), kLongestShown);
}

std::string shorten(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  const auto inside_character = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  while (most > 0 && inside_character(most)) --most;
  return text.substr(0, most) + "...";
}

std::string escape(std::string_view text, std::string_view also) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  constexpr unsigned char kDelete = 0x7F;
  std::string escaped;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (also.find(c) != std::string_view::npos) {
      escaped += {'\\', c};
    } else if (c == '\n') {
      escaped += "\\n";
    } else if (c == '\t') {
      escaped += "\\t";
    } else if (code < ' ' || code == kDelete) {
      escaped += "\\u00";
      escaped += {kHex[code / kHex.size()], kHex[code % kHex.size()]};
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string quote(std::string_view text) {
  return '"' + escape(text, "\"\\") + '"';
}

}  // namespace fourfold::config
