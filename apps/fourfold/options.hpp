// The options that all subcommands with a configuration have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/config/read.hpp"

namespace CLI {
class App;
}

namespace fourfold::app {

/// Adds CONFIG and --set, and says where the keys are listed.
void add_config_options(CLI::App& app, config::Source& source);
/// Adds --grid.
void add_grid_option(CLI::App& app, config::Source& source);

}  // namespace fourfold::app
