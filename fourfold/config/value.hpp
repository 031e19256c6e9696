// A value of a configuration, as it passes between the file and the struct, and its text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fourfold::config {

/// A kind of value that TOML has and no key accepts: "a table", "a date".
struct Other {
  std::string_view name;
};

struct Value {
  std::variant<bool, std::int64_t, double, std::string, std::vector<Value>, Other> held;
};

/// The value as written in a file. Numbers read back as the same numbers.
std::string to_toml(const Value& value);

/// The same for a message: long values are cut.
std::string shown(const Value& value);
/// Shortens a text to at most `most` bytes, with "..." where it was cut. Never cuts a character.
std::string shorten(std::string text, std::size_t most);

/// Replaces characters that would break a line or disturb a terminal, and those of `also`, by
/// TOML's escapes.
std::string escape(std::string_view text, std::string_view also = {});
/// A TOML string.
std::string quote(std::string_view text);

}  // namespace fourfold::config
