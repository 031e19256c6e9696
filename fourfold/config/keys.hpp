// The table of all keys, which is used for reading, checking, writing and suggestions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/config/rules.hpp"

namespace fourfold::config {

struct Key {
  std::string section;
  std::string name;
  std::string meaning;     ///< for people, in one line
  std::string allowed;     ///< "a whole number of at least 1"
  bool required = false;   ///< must be given
  bool is_path = false;    ///< relative to the place where it is given
  std::string fallback{};  ///< the default in words, where it depends on other keys
  /// The kinds of models that have this key; empty: all of them.
  std::vector<std::string_view> kinds{};
  std::function<Refusal(Config&, const Value&)> assign;
  /// Returns nothing when there is nothing to write.
  std::function<std::optional<Value>(const Config&)> value;

  /// "train.steps".
  std::string full_name() const { return section + "." + name; }
  bool is_of(std::string_view kind) const {
    return kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  }
};

/// All keys, section by section, in the order in which they are written.
const std::vector<Key>& keys();

/// Null when there is no key of that name.
const Key* find_key(std::string_view section, std::string_view name);
bool is_section(std::string_view name);

}  // namespace fourfold::config
