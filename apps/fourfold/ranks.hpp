// Runs a subcommand on one rank, on several ranks started here, or as one rank of a launcher.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/base/error.hpp"
#include "fourfold/comm/world.hpp"

namespace CLI {
class App;
}

namespace fourfold::app {

struct RankOptions {
  std::optional<int> ranks;
  std::optional<double> deadline;
  bool verbose = false;
  bool stops_gently = false;  ///< see launch::Job
};

/// Adds --ranks, --deadline and --verbose.
void add_rank_options(CLI::App& app, RankOptions& options);

/// Throws ConfigError when a value is impossible.
comm::Options comm_options(const RankOptions& options);

/// The command line without these options and their values: "--ranks N" or "--ranks=N".
std::vector<std::string> without_options(char** argv, const std::vector<std::string>& options);

/// Reports bad input that was found before the ranks joined each other. Under mpirun or srun, where
/// every rank finds it, it is reported once. Returns the exit status.
int refuse(const ConfigError& error);

/// Calls `body` in the role of this process. It is a rank that mpirun or srun started, or the
/// launcher of options.ranks processes, which run this program without --ranks, or a single rank.
/// Returns the exit status.
int run_on_ranks(const RankOptions& options, char** argv,
                 const std::function<void(comm::World&)>& body);

}  // namespace fourfold::app
