// Checks of relations between the keys of a configuration, once all keys are read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "fourfold/config/config.hpp"

namespace fourfold::config {

/// A configuration and where its values come from.
struct Draft {
  Config config;
  std::string file;                           ///< its name in messages
  std::map<std::string, std::string> places;  ///< "gpt.toml:7" by the names of the keys given
};

/// Throws ConfigError for missing keys and for values that do not go together. With `needs_data`
/// the data must be named.
void check(const Draft& draft, bool needs_data);

}  // namespace fourfold::config
