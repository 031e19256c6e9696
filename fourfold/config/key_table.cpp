// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/key_table.hpp"

#include <algorithm>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/config/keys.hpp"
#include "fourfold/config/suggest.hpp"

namespace fourfold::config {

namespace {

/// The default as text. Empty when there is none.
std::string default_of(const Key& key) {
  if (key.required) return "required";
  if (!key.fallback.empty()) return key.fallback;
  Config config;
  if (!key.kinds.empty()) config.model.kind = key.kinds.front();
  const auto value = key.value(config);
  return value ? to_toml(*value) : "";
}

/// Removes the marks of code, for a terminal.
std::string plain(std::string text) {
  std::erase(text, '`');
  return text;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::vector<const Key*> keys_with(std::string_view prefix) {
  std::vector<const Key*> found;
  for (const Key& key : keys()) {
    if (key.full_name().starts_with(prefix)) found.push_back(&key);
  }
  return found;
}

[[noreturn]] void refuse(std::string_view name) {
  const auto dot = name.find('.');
  const std::string_view section = name.substr(0, dot);
  if (dot == std::string_view::npos || !is_section(section)) {
    throw ConfigError(unknown_section(section));
  }
  throw ConfigError(unknown_key(section, name.substr(dot + 1)));
}

}  // namespace

std::string key_table(std::string_view prefix) {
  const std::vector<const Key*> found = keys_with(prefix);
  if (found.empty()) refuse(prefix);
  constexpr std::size_t kGap = 2;
  std::size_t names = 0;
  std::size_t defaults = std::string_view("default").size();
  for (const Key* key : found) {
    names = std::max(names, key->full_name().size());
    defaults = std::max(defaults, default_of(*key).size());
  }
  std::string text =
      concat(padded("key", names + kGap), padded("default", defaults + kGap), "meaning\n");
  for (const Key* key : found) {
    text += concat(padded(key->full_name(), names + kGap),
                   padded(default_of(*key), defaults + kGap), plain(key->meaning), "\n");
  }
  return text;
}

std::string key_table_markdown() {
  std::string text = "| key | default | |\n|---|---|---|\n";
  for (const Key& key : keys()) {
    const bool in_words = key.required || !key.fallback.empty();
    std::string value = default_of(key);
    if (!value.empty()) value = in_words ? value + " " : concat("`", value, "` ");
    text += concat("| `", key.full_name(), "` | ", value, "| ", key.meaning, " |\n");
  }
  return text;
}

}  // namespace fourfold::config
