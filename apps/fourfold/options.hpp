// The options that all subcommands with a configuration have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fourfold/config/read.hpp"

namespace CLI {
class App;
}

namespace fourfold::app {

/// Adds CONFIG and --set, and says where the keys are listed.
void add_config_options(CLI::App& app, config::Source& source, bool required = true);
/// Adds --grid.
void add_grid_option(CLI::App& app, config::Source& source);

/// Reads a configuration whose data is not looked at. A vocabulary that the configuration leaves to
/// the data is filled in: it is that of bytes.
config::Config read_without_data(config::Source source);

/// Options and the paths of their output files, which are empty where an option was not given.
/// Throws ConfigError unless all files can be written and are different. Call it before long work.
void check_outputs(const std::vector<std::pair<std::string, std::string>>& outputs);

}  // namespace fourfold::app
