// fourfold train: trains the model of a configuration.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/checkpoint/model_config.hpp"
#include "fourfold/launch/environment.hpp"
#include "fourfold/launch/stop_signal.hpp"
#include "fourfold/model/kinds.hpp"
#include "fourfold/planner/choose.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/train/dataset.hpp"
#include "fourfold/train/gpu.hpp"
#include "fourfold/train/resumed_config.hpp"
#include "fourfold/train/run.hpp"
#include "fourfold/train/run_folder.hpp"
#include "fourfold/train/settle.hpp"
#include "fourfold/train/setup.hpp"

#include "apps/fourfold/commands.hpp"
#include "apps/fourfold/console.hpp"
#include "apps/fourfold/options.hpp"
#include "apps/fourfold/ranks.hpp"
#include "apps/fourfold/start.hpp"
#include "apps/fourfold/supervisor.hpp"

namespace fourfold::app {

namespace {

struct TrainOptions {
  RankOptions ranks;
  config::Source source;
  train::RunSpec run;
  std::string trace_steps;
  std::string on_bad_step;
  int restarts = 0;
};

config::Config for_data(const train::RunSpec& run) {
  return train::config_for_data(run.config, run.has_checkpoint ? run.resume : std::string());
}

/// Checks everything that one process can check, before others are started. It also prepares the
/// data, so that no rank has to wait for it.
void check(const TrainOptions& options, int ranks) {
  config::Config config = options.run.config;
  if (options.run.free_grid) train::forget_other_grid(config, ranks);
  if (options.run.own) train::take_own_grid(config, *options.run.own, ranks);
  const train::Console console = make_console();
  config::Config of_data = for_data(options.run);
  static_cast<void>(train::open_dataset(of_data, console.show));
  config.model.vocab = of_data.model.vocab;
  train::settle_grid(config, ranks, train::memory_for_training(config, ranks));
  train::check_fit(config);
}

/// Throws ConfigError unless the folder to start from has a model that matches the configuration.
void check_weights(const config::Config& config) {
  const std::string unfinished = train::why_no_model(config.train.init_from);
  if (!unfinished.empty()) throw ConfigError("train.init_from: " + unfinished);
  config::Config known = config;
  if (known.model.vocab == 0) known.model.vocab = 1;  // it is not compared
  checkpoint::check_same_model(*model::model_of(known), config.train.init_from);
}

/// Says which configuration a run that goes on has: its own, if no other one is given.
void find_config(TrainOptions& options) {
  const std::string& resume = options.run.resume;
  if (resume.empty() && options.source.path.empty()) {
    throw ConfigError(
        "train needs a configuration, CONFIG.toml, or --resume FOLDER; see fourfold train --help");
  }
  if (resume.empty()) return;
  if (!options.run.out.empty()) {
    throw ConfigError("--resume goes on in the run's own folder: leave out --out");
  }
  train::check_resumed_folder(resume, !options.source.path.empty());
  if (!options.source.path.empty()) {
    if (train::is_run_folder(resume)) {
      options.run.own = config::read({.path = resume + "/config.toml", .needs_data = false});
    }
    return;
  }
  options.source.path = resume + "/config.toml";
  options.run.free_grid = options.source.grid.empty();
}

Supervised supervised(const TrainOptions& options) {
  if (!options.ranks.ranks) {
    throw ConfigError(
        "--restarts needs --ranks N: under mpirun or srun the launcher starts a job again, with "
        "--resume FOLDER");
  }
  const train::RunSpec& run = options.run;
  const std::string folder = !run.resume.empty() ? run.resume
                             : !run.out.empty()  ? run.out
                                                 : train::new_run_folder(run.name);
  const auto has_grid = [&options, folder](int ranks) {
    TrainOptions other = options;
    other.run.free_grid = true;
    other.run.config.parallel.given = true;  // the run's own has the grid that does not fit
    other.run.resume = folder;
    other.run.has_checkpoint = train::has_checkpoint(folder);
    try {
      check(other, ranks);
    } catch (const ConfigError&) {
      return false;
    }
    return true;
  };
  return {.ranks = options.ranks,
          .restarts = options.restarts,
          .folder = folder,
          .steps = run.config.train.steps,
          .config = options.source.path,
          .has_grid = has_grid};
}

int run(TrainOptions& options, char** argv) {
  // First of all: the launcher passes a request on as soon as all ranks catch it.
  if (launch::is_rank()) launch::catch_stop_signals();
  find_config(options);
  if (!options.on_bad_step.empty()) {
    options.source.overrides.push_back("train.on_bad_step=" + options.on_bad_step);
  }
  options.run.config = config::read(options.source);
  options.run.has_checkpoint =
      !options.run.resume.empty() && train::has_checkpoint(options.run.resume);
  options.run.name = std::filesystem::path(options.source.path).stem().string();
  check_outputs({{"--json", options.run.json},
                 {"--report", options.run.report},
                 {"--trace", options.run.trace}});
  if (!options.run.trace.empty() || !options.run.report.empty()) {
    options.run.trace_steps =
        train::parse_trace_steps(options.trace_steps, options.run.config.train.steps);
  } else if (!options.trace_steps.empty()) {
    throw ConfigError("--trace-steps needs --trace or --report");
  }
  if (options.run.resume.empty()) train::check_run_folder(options.run.out);
  train::check_inputs(for_data(options.run));
  train::check_gpus(options.run.config.device);
  if (!options.run.config.train.init_from.empty() && !options.run.has_checkpoint) {
    check_weights(options.run.config);
  }
  const config::ParallelConfig& parallel = options.run.config.parallel;
  if (!options.ranks.ranks && !launch::is_rank() && parallel.given) {
    const int needed = grid::Grid(parallel.sizes).ranks();
    if (needed > 1) options.ranks.ranks = needed;
  }
  if (options.ranks.ranks) {
    check(options, *options.ranks.ranks);
    announce_terminal();
    announce_command(argv);
  }
  options.run.command = command_line(argv);
  options.run.versions = versions();
  const std::string remark = crowding(options.run.config.device);
  if (!remark.empty()) options.run.remarks = {remark};
  tensor::keep_freed_memory();
  options.ranks.stops_gently = true;
  if (options.restarts > 0) return supervise(supervised(options), argv);
  bool stopped = false;
  const int status = run_on_ranks(options.ranks, argv, [&](comm::World& world) {
    launch::catch_stop_signals();  // also where this process is the only rank
    const train::Console console = make_console();
    train::RunSpec spec = options.run;
    spec.choose = [&console](comm::World& ranks, config::Config& config,
                             std::optional<train::Prediction>& predicted) {
      return planner::choose(ranks, config, predicted, console);
    };
    stopped = !train::run(world, std::move(spec), console);
  });
  return status == 0 && stopped ? launch::kStoppedStatus : status;
}

}  // namespace

void add_train(CLI::App& app, Command& command) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* train = app.add_subcommand("train", "trains a model");
  add_config_options(*train, options->source, false);
  add_grid_option(*train, options->source);
  add_rank_options(*train, options->ranks);
  train->add_option("--out", options->run.out, "the run's folder; without it a new one in runs/");
  train->add_option("--resume", options->run.resume,
                    "go on with the run in this folder, from its newest checkpoint, on any grid; "
                    "CONFIG may be left out");
  train
      ->add_option("--restarts", options->restarts,
                   "start the ranks again up to so many times when they fail, from the newest "
                   "checkpoint")
      ->check(CLI::NonNegativeNumber);
  train->add_option(
      "--init-from", options->source.init_from,
      "start from the weights in this folder: a run's, or GPT-2's own; the same as the "
      "key train.init_from");
  train
      ->add_option("--on-bad-step", options->on_bad_step,
                   "when a loss or gradient is not finite: stop, or skip the update of that step; "
                   "the same as the key train.on_bad_step")
      ->check(CLI::IsMember({"stop", "skip"}));
  train->add_option("--json", options->run.json, "write the results to this file");
  train->add_option("--report", options->run.report,
                    "write a page about the run to this file, for a browser");
  train->add_option("--trace", options->run.trace,
                    "write what each rank did during a step to this file, for Perfetto");
  train->add_option("--trace-steps", options->trace_steps,
                    "trace the steps A-B instead of the third; the report draws the first of them");
  train->callback(
      [options, &command] { command = [options](char** argv) { return run(*options, argv); }; });
}

}  // namespace fourfold::app
