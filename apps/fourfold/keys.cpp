// fourfold keys: lists the keys of a configuration.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "fourfold/config/key_table.hpp"

#include "apps/fourfold/commands.hpp"

namespace fourfold::app {

void add_keys(CLI::App& app, Command& command) {
  auto name = std::make_shared<std::string>();
  CLI::App* keys = app.add_subcommand("keys", "lists the keys of a configuration");
  keys->add_option("name", *name, "only those whose names begin so, as in train or optim.lr")
      ->option_text("[SECTION[.KEY]]");
  keys->callback([name, &command] {
    command = [name](char** /*argv*/) {
      std::fputs(config::key_table(*name).c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace fourfold::app
