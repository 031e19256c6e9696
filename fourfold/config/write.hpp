// Writes a configuration as the TOML file that reads back as the same one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/config/config.hpp"

namespace fourfold::config {

/// The file: all sections and keys, but no empty path, and no size of the grid unless they are
/// given.
std::string to_toml(const Config& config);

}  // namespace fourfold::config
