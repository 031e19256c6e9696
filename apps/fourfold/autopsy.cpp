// fourfold autopsy: says what the ranks of a run that died did last.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/autopsy.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/train/run_folder.hpp"

#include "apps/fourfold/commands.hpp"
#include "apps/fourfold/options.hpp"

namespace fourfold::app {

namespace {

struct AutopsyOptions {
  std::string folder;
  std::string json;
};

std::vector<comm::FlightLog> logs_in(const std::filesystem::path& folder) {
  std::vector<comm::FlightLog> logs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".flight") continue;
    try {
      logs.push_back(comm::read_flight_log(entry.path()));
    } catch (const ConfigError& problem) {
      print_error(problem.what());
    }
  }
  return logs;
}

void write_json(const std::string& path, const report::Autopsy& found) {
  nlohmann::ordered_json json = {{"summary", found.summary},
                                 {"culprits", nlohmann::ordered_json::array()},
                                 {"ranks", found.ranks}};
  for (const report::Culprit& one : found.culprits) {
    json["culprits"].push_back({{"rank", one.rank}, {"line", one.line}});
  }
  write_text(path, json.dump(2) + "\n");
}

int run(const AutopsyOptions& options) {
  check_outputs({{"--json", options.json}});
  if (!train::is_run_folder(options.folder)) {
    throw ConfigError(concat(options.folder, " is not the folder of a run"));
  }
  std::vector<comm::FlightLog> logs = logs_in(train::flight_folder(options.folder));
  if (logs.empty()) {
    logs = logs_in(train::earlier_flight_folder(options.folder));
    if (!logs.empty()) std::printf("the ranks before those that went on with the run:\n");
  }
  if (logs.empty()) {
    throw ConfigError(concat(options.folder,
                             " has no logs of ranks: the run goes on on another machine, has ended "
                             "well, or has not begun to train"));
  }
  const report::Autopsy found = report::autopsy(logs);
  for (const std::string& line : found.ranks) std::printf("%s\n", line.c_str());
  if (found.culprits.size() > 1) {
    std::printf("\n");
    for (const report::Culprit& one : found.culprits) std::printf("%s\n", one.line.c_str());
  }
  std::printf("\n%s\n", found.summary.c_str());
  if (!options.json.empty()) write_json(options.json, found);
  return 0;
}

}  // namespace

void add_autopsy(CLI::App& app, Command& command) {
  auto options = std::make_shared<AutopsyOptions>();
  CLI::App* autopsy =
      app.add_subcommand("autopsy", "says what the ranks of a run that died did last");
  autopsy->add_option("folder", options->folder, "the folder of a run")
      ->required()
      ->option_text("RUN_DIR");
  autopsy->add_option("--json", options->json, "write the results to this file");
  autopsy->callback(
      [options, &command] { command = [options](char** /*argv*/) { return run(*options); }; });
}

}  // namespace fourfold::app
