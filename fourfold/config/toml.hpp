// From the text of a TOML file to sections, keys and values: the only place that knows the parser.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/config/value.hpp"

namespace fourfold::config {

struct Item {
  std::string name;
  Value value;
  int line = 0;
};

/// What stands at the top of a file: a table of keys, or a value that belongs into one.
struct Section {
  std::string name;
  int line = 0;
  std::optional<Value> value;  ///< instead of items
  std::vector<Item> items;
};

/// The largest text that is parsed. Far more than a configuration needs, and too small for tables
/// so deep that taking them down again would exhaust the stack.
inline constexpr std::size_t kLargestToml = std::size_t{16} << 10;

/// The sections and their keys in the order of the text, of at most kLargestToml. Throws
/// ConfigError that begins with "`file`:line: " when the text is not TOML.
std::vector<Section> parse_toml(std::string_view text, std::string_view file);

/// A value as it stands behind a "=" in a file; any other text is a string, as if it stood in
/// quotes. Nothing when it is too long or not UTF-8, so that no file could hold it.
std::optional<Value> parse_value(std::string_view text);

}  // namespace fourfold::config
