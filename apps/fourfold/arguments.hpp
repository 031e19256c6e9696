// Checks for unknown words on the command line, which are most often typing mistakes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace fourfold::app {

/// Throws ConfigError for a command or an option that does not exist: one line, with a similar name
/// where there is one. `app` must have all its subcommands.
void check_words(const CLI::App& app, char** argv);

/// "see fourfold train --help", for the command that these arguments name, if any.
std::string where_help_is(const CLI::App& app, char** argv);

}  // namespace fourfold::app
