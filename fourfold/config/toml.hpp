// Reads TOML files and converts their text to sections, keys and values. This is the only place
// that uses the parser.
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

/// A top-level entry of a file: a table of keys, or a value outside of any table.
struct Section {
  std::string name;
  int line = 0;
  std::optional<Value> value;  ///< instead of items
  std::vector<Item> items;
};

/// The largest text that is parsed. It is far more than a configuration needs, and too small for
/// tables so deep that destroying them would exhaust the stack.
inline constexpr std::size_t kLargestToml = std::size_t{16} << 10;

/// The text of a file of at most kLargestToml bytes. Throws ConfigError when it is no such file;
/// `what` says what the file is meant to be: "configuration".
std::string read_toml(const std::string& path, std::string_view what);

/// The sections and their keys in the order of the text, which has at most kLargestToml bytes.
/// Throws ConfigError that begins with "`file`:line: " when the text is not TOML.
std::vector<Section> parse_toml(std::string_view text, std::string_view file);

/// Parses a value as written after "=" in a file. Any other text is a string, as if it were in
/// quotes. Returns nothing when the value is too long or not UTF-8, since no file could contain it.
std::optional<Value> parse_value(std::string_view text);

}  // namespace fourfold::config
