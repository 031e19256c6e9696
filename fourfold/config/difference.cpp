// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/difference.hpp"

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/config/toml.hpp"

namespace fourfold::config {

std::optional<Difference> first_difference(std::string_view text, std::string_view file,
                                           const Config& now,
                                           const std::function<bool(const Key&)>& matters) {
  if (text.size() > kLargestToml) throw ConfigError(concat(file, " has a configuration too long"));
  for (const Section& section : parse_toml(text, file)) {
    for (const Item& item : section.items) {
      const Key* key = find_key(section.name, item.name);
      if (key == nullptr || !matters(*key)) continue;
      const std::optional<Value> value = key->value(now);
      if (!value || to_toml(*value) == to_toml(item.value)) continue;
      return Difference{key->full_name(), to_toml(item.value), to_toml(*value)};
    }
  }
  return std::nullopt;
}

}  // namespace fourfold::config
