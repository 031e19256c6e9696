// Lists of strategies on the command line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace fourfold::app {

/// Parses "all", or names with commas between them. Throws ConfigError that lists the names.
std::vector<std::string> parse_strategies(const std::string& text);

}  // namespace fourfold::app
