// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/write.hpp"

#include "fourfold/base/text.hpp"
#include "fourfold/config/keys.hpp"

namespace fourfold::config {

std::string to_toml(const Config& config) {
  std::string text;
  std::string section;
  for (const Key& key : keys()) {
    if (key.section != section) {
      if (!text.empty()) text += '\n';
      text += concat("[", key.section, "]\n");
      section = key.section;
    }
    if (const auto value = key.value(config))
      text += concat(key.name, " = ", to_toml(*value), "\n");
  }
  return text;
}

}  // namespace fourfold::config
