// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/json_file.hpp"

#include <cstdint>
#include <string_view>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/whole_file.hpp"

namespace fourfold::data {

namespace {

using nlohmann::json;

constexpr std::int64_t kDeepest = 32;
constexpr std::int64_t kMostValues = 6'000'000;  // Llama 3's file has about a million

/// What the parsed text would need at most.
struct Extent {
  std::int64_t depth = 0;
  std::int64_t values = 0;
};

/// Strings are skipped. What this finds in a text that is no JSON does not matter.
Extent measure(std::string_view text) {
  Extent extent;
  std::int64_t depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') extent.depth = std::max(extent.depth, ++depth);
    if (c == ']' || c == '}') --depth;
    if (c == '[' || c == '{' || c == ',') ++extent.values;
  }
  return extent;
}

}  // namespace

json parse_object(const std::string& text, const std::string& path) {
  const Extent extent = measure(text);
  if (extent.depth > kDeepest) {
    throw ConfigError(concat(path, " is damaged: it is nested more than ", kDeepest, " deep"));
  }
  if (extent.values > kMostValues) {
    throw ConfigError(concat(path, " is damaged: it has more than ", kMostValues, " values"));
  }
  try {
    json parsed = json::parse(text);
    if (!parsed.is_object()) throw ConfigError(path + " is damaged: it is not a JSON object");
    return parsed;
  } catch (const json::exception& error) {
    constexpr std::size_t kMostShown = 300;  // the message may hold a string of the file
    throw ConfigError(
        concat(path, " is damaged: ", one_line(std::string(error.what()).substr(0, kMostShown))));
  }
}

const json& member(const json& object, const char* name) {
  static const json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(name);
  return found == object.end() ? nothing : *found;
}

std::string shown(const json& value) {
  constexpr std::size_t kMost = 60;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

}  // namespace fourfold::data
