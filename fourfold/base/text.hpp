// Small helpers to compose and to parse text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold {

/// The parts, streamed one after the other.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// The items, streamed, with `separator` between them.
template <class Items>
std::string join(const Items& items, std::string_view separator) {
  std::ostringstream out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out << separator;
    first = false;
    out << item;
  }
  return out.str();
}

/// Splits at every `separator`. Empty pieces are kept; an empty text gives no pieces.
std::vector<std::string> split(std::string_view text, char separator);

/// The text without white space at both ends.
std::string_view trim(std::string_view text);

/// Parses all of `text` as an integer. Nothing when it is not one or does not fit.
std::optional<std::int64_t> parse_int(std::string_view text);

/// Parses all of `text` as a finite number. Nothing when it is not one.
std::optional<double> parse_number(std::string_view text);

/// Sorted whole numbers with runs shortened: {0,1,2,5} is "0-2,5".
std::string ranges(const std::vector<int>& sorted);

}  // namespace fourfold
