// The program: reads the command line and calls a subcommand.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/processor.hpp"
#include "fourfold/launch/environment.hpp"

#include "apps/fourfold/arguments.hpp"
#include "apps/fourfold/commands.hpp"
#include "apps/fourfold/ranks.hpp"

namespace {

using fourfold::app::print_error;

int run(int argc, char** argv) {
  CLI::App app(
      "Fourfold trains large neural networks in four dimensions of parallelism, and predicts "
      "how long it will take.");
  app.name("fourfold");
  app.set_version_flag("--version", FOURFOLD_VERSION);
  app.require_subcommand(0, 1);
  app.footer("The options of a command: fourfold train --help, and so on.");
  fourfold::app::Command command;
  fourfold::app::add_train(app, command);
  fourfold::app::add_sample(app, command);
  fourfold::app::add_plan(app, command);
  fourfold::app::add_calibrate(app, command);
  fourfold::app::add_bench(app, command);
  fourfold::app::add_dryrun(app, command);
  fourfold::app::add_checkpoint(app, command);
  fourfold::app::add_autopsy(app, command);
  fourfold::app::add_info(app, command);
  fourfold::app::add_keys(app, command);
  fourfold::app::check_words(app, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    throw fourfold::ConfigError(std::string(error.what()) + "; " +
                                fourfold::app::where_help_is(app, argv));
  }
  if (!command) {  // no subcommand was given
    std::fputs(app.help().c_str(), stderr);
    return 2;
  }
  return command(argv);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    fourfold::launch::ensure_library_variables(argv);
    fourfold::check_choices();
    return run(argc, argv);
  } catch (const fourfold::ConfigError& error) {
    return fourfold::app::refuse(error);
  } catch (const fourfold::Error& error) {
    print_error(error.what());
    return error.exit_status();
  } catch (const std::exception& error) {
    print_error(fourfold::describe(error));
    return 1;
  }
}
