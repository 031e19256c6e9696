// SPDX-License-Identifier: Apache-2.0
#include "apps/fourfold/options.hpp"

#include <filesystem>
#include <map>

#include <CLI/CLI.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::app {

void add_config_options(CLI::App& app, config::Source& source, bool required) {
  app.add_option("config", source.path, "the configuration: a TOML file")
      ->required(required)
      ->option_text("CONFIG.toml");
  app.add_option("--set", source.overrides, "overrides a key of the configuration")
      ->option_text("section.key=value")
      ->take_all()
      ->allow_extra_args(false);
  app.footer(
      "The keys of CONFIG.toml, their defaults and meanings: fourfold keys\n"
      "Relative paths start at the folder of CONFIG.toml, those of the command line at the "
      "working\n"
      "directory.");
}

void add_grid_option(CLI::App& app, config::Source& source) {
  app.add_option("--grid", source.grid, "how the ranks are arranged, as in x=2,y=2,z=1,data=1");
}

config::Config read_without_data(config::Source source) {
  source.needs_data = false;
  config::Config config = config::read(source);
  if (config.model.vocab == 0 && !config.model.has_images()) {
    config.model.vocab = config::kByteTokens;
  }
  return config;
}

void check_outputs(const std::vector<std::pair<std::string, std::string>>& outputs) {
  std::map<std::filesystem::path, std::string> taken;
  for (const auto& [option, path] : outputs) {
    if (path.empty()) continue;
    check_writable(option, path);
    const auto [other, is_new] = taken.emplace(std::filesystem::weakly_canonical(path), option);
    if (!is_new) {
      throw ConfigError(concat(option, " ", path, " is also the file of ", other->second));
    }
  }
}

}  // namespace fourfold::app
