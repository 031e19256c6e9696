// Writes a configuration as a TOML file that reads back as the same configuration.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/config/config.hpp"

namespace fourfold::config {

/// The file with all sections and keys, except empty paths, and sizes of the grid that are not
/// given.
std::string to_toml(const Config& config);

}  // namespace fourfold::config
