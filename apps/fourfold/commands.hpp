// The subcommands. Each one adds itself to the command line and, when it is chosen, sets what to
// run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace fourfold::app {

/// Runs with the program's own arguments and returns the exit status.
using Command = std::function<int(char** argv)>;

void add_autopsy(CLI::App& app, Command& command);
void add_bench(CLI::App& app, Command& command);
void add_calibrate(CLI::App& app, Command& command);
void add_checkpoint(CLI::App& app, Command& command);
void add_dryrun(CLI::App& app, Command& command);
void add_info(CLI::App& app, Command& command);
void add_keys(CLI::App& app, Command& command);
void add_plan(CLI::App& app, Command& command);
void add_sample(CLI::App& app, Command& command);
void add_train(CLI::App& app, Command& command);

/// Prints one line on standard error, after the program's name.
void print_error(const std::string& line);

}  // namespace fourfold::app
