// SPDX-License-Identifier: Apache-2.0
#include "apps/fourfold/ranks.hpp"

#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/comm/mpi/run.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/launch/environment.hpp"
#include "fourfold/launch/launcher.hpp"

#include "apps/fourfold/commands.hpp"

namespace fourfold::app {

namespace {

std::vector<std::string> without_ranks(char** argv) {
  return without_options(argv, {"--ranks"});
}

}  // namespace

std::vector<std::string> without_options(char** argv, const std::vector<std::string>& options) {
  std::vector<std::string> words;
  for (; *argv != nullptr; ++argv) {
    const std::string word(*argv);
    const std::string name = word.substr(0, word.find('='));
    if (std::find(options.begin(), options.end(), name) == options.end()) {
      words.push_back(word);
    } else if (name == word && argv[1] != nullptr) {
      ++argv;  // its value
    }
  }
  return words;
}

void print_error(const std::string& line) {
  std::fflush(stdout);
  std::fprintf(stderr, "fourfold: %s\n", line.c_str());
}

void add_rank_options(CLI::App& app, RankOptions& options) {
  app.add_option("--ranks", options.ranks, "start that many processes on this machine");
  app.add_option("--deadline", options.deadline,
                 "seconds after which a wait for other ranks ends the job [600]");
  app.add_flag("--verbose", options.verbose,
               "a failure also shows the details of its error, such as a stack");
}

comm::Options comm_options(const RankOptions& options) {
  comm::Options all;
  if (options.deadline) {
    if (!(*options.deadline > 0)) throw ConfigError("--deadline must be above 0 seconds");
    all.deadline = Seconds(*options.deadline);
  }
  all.verbose = options.verbose;
  return all;
}

int refuse(const ConfigError& error) {
  if (launch::is_rank()) {
    return comm::mpi::run([&](comm::World&) { throw ConfigError(error); }, print_error);
  }
  print_error(error.what());
  return error.exit_status();
}

int run_on_ranks(const RankOptions& options, char** argv,
                 const std::function<void(comm::World&)>& body) {
  const comm::Options own = comm_options(options);
  if (options.ranks) {
    launch::Job job{*options.ranks, without_ranks(argv), print_error, options.stops_gently};
    job.command[0] = launch::this_program();
    return launch::run(job);
  }
  if (launch::is_rank()) {
    const std::string& remark = launch::bind_to_cores().remark;
    const auto remarking_body = [&](comm::World& world) {
      if (world.rank() == 0 && !remark.empty()) print_error(remark);
      body(world);
    };
    return comm::mpi::run(remarking_body, print_error, own);
  }
  comm::World world = comm::self::open(own);
  try {
    body(world);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (own.verbose && !details(error).empty()) print_error(details(error));
    throw;
  }
  return 0;
}

}  // namespace fourfold::app
