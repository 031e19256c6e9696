// Words of the command line that the program does not know: most often a slip of the fingers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace fourfold::app {

/// Throws ConfigError for a command or an option that does not exist: one line, with a near name
/// where there is one. `app` has all its subcommands.
void check_words(const CLI::App& app, char** argv);

/// "see fourfold train --help": of the command that these arguments name, if they do.
std::string where_help_is(const CLI::App& app, char** argv);

}  // namespace fourfold::app
