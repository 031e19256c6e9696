// A value of a configuration, between the file and the struct, and its text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fourfold::config {

/// What TOML knows and no key takes: "a table", "a date".
struct Other {
  std::string_view name;
};

struct Value {
  std::variant<bool, std::int64_t, double, std::string, std::vector<Value>, Other> held;
};

/// The value as it stands in a file; numbers read back as the same numbers.
std::string to_toml(const Value& value);

/// The same for a message: long ones are cut.
std::string shown(const Value& value);
/// At most so many bytes, with "..." where some were cut off; never half a character.
std::string shorten(std::string text, std::size_t most);

/// Characters that would break a line or upset a terminal, and those of `also`, as TOML's escapes.
std::string escape(std::string_view text, std::string_view also = {});
/// A TOML string.
std::string quote(std::string_view text);

}  // namespace fourfold::config
