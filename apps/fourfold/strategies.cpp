// SPDX-License-Identifier: Apache-2.0
#include "apps/fourfold/strategies.hpp"

#include <algorithm>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/config/value.hpp"

namespace fourfold::app {

std::vector<std::string> parse_strategies(const std::string& text) {
  std::vector<std::string> all;
  for (const config::Strategy& strategy : config::strategies()) all.emplace_back(strategy.name);
  if (text == "all") return all;
  std::vector<std::string> chosen;
  for (const std::string& name : split(text, ',')) {
    if (std::find(all.begin(), all.end(), name) == all.end()) {
      throw ConfigError(concat("--strategies ", config::escape(text), ": there is no ",
                               config::escape(name), "; there are ", join(all, ", "), ", or all"));
    }
    chosen.push_back(name);
  }
  return chosen;
}

}  // namespace fourfold::app
