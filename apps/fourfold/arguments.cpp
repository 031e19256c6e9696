// SPDX-License-Identifier: Apache-2.0
#include "apps/fourfold/arguments.hpp"

#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/config/suggest.hpp"
#include "fourfold/config/value.hpp"

namespace fourfold::app {

namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// The command that the word names, or null.
const CLI::App* command_of(const CLI::App& app, const char* word) {
  if (word == nullptr) return nullptr;
  for (const CLI::App* command : commands_of(app)) {
    if (command->get_name() == word) return command;
  }
  return nullptr;
}

/// The options that the help shows, without their dashes.
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

std::string shown(std::string_view word) {
  constexpr std::size_t kLongest = 60;
  return config::shorten(config::escape(word), kLongest);
}

[[noreturn]] void refuse_command(const CLI::App& app, std::string_view word) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  const auto meant = config::nearest(word, names);
  throw ConfigError(
      concat("unknown command ", shown(word), "; ",
             meant ? concat("did you mean ", *meant, "?") : concat("there are ", join(names, ", ")),
             " See fourfold --help"));
}

[[noreturn]] void refuse_option(const CLI::App& command, std::string_view word) {
  const auto meant = config::nearest(word.substr(2), option_names(command));
  throw ConfigError(concat("unknown option ", shown(word), " of fourfold ", command.get_name(),
                           meant ? concat("; did you mean --", *meant, "? S") : "; s",
                           "ee fourfold ", command.get_name(), " --help"));
}

}  // namespace

void check_words(const CLI::App& app, char** argv) {
  if (argv[1] == nullptr || argv[1][0] == '-') return;
  const CLI::App* command = command_of(app, argv[1]);
  if (command == nullptr) refuse_command(app, argv[1]);
  char** word = argv + 2;
  while (const CLI::App* inner = command_of(*command, *word)) {
    command = inner;
    ++word;
  }
  for (; *word != nullptr; ++word) {
    const std::string_view text(*word);
    if (text == "--") return;
    if (!text.starts_with("--")) continue;
    const auto equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const CLI::Option* option = command->get_option_no_throw(std::string(name));
    if (option == nullptr) refuse_option(*command, name);
    const bool takes_next =
        equals == std::string_view::npos && option->get_items_expected_min() > 0;
    if (takes_next && word[1] != nullptr) ++word;  // its value, whatever it looks like
  }
}

std::string where_help_is(const CLI::App& app, char** argv) {
  const CLI::App* command = command_of(app, argv[1]);
  return command != nullptr ? concat("see fourfold ", command->get_name(), " --help")
                            : "see fourfold --help";
}

}  // namespace fourfold::app
