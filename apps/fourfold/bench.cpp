// fourfold bench: compares strategies on the same model, batch, data and ranks.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/bench.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/comm/thread/thread.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/config/value.hpp"
#include "fourfold/launch/environment.hpp"
#include "fourfold/planner/choose.hpp"
#include "fourfold/planner/predict.hpp"
#include "fourfold/planner/read_plans.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/train/accuracy.hpp"
#include "fourfold/train/gpu.hpp"
#include "fourfold/train/settle.hpp"
#include "fourfold/train/shared_dataset.hpp"

#include "apps/fourfold/commands.hpp"
#include "apps/fourfold/console.hpp"
#include "apps/fourfold/options.hpp"
#include "apps/fourfold/ranks.hpp"
#include "apps/fourfold/start.hpp"
#include "apps/fourfold/strategies.hpp"

namespace fourfold::app {

namespace {

struct BenchOptions {
  RankOptions ranks;
  config::Source source;
  std::string grid;  ///< only to refuse it
  std::string strategies = "all";
  std::string plans;  ///< a file of fourfold plan
  std::int64_t steps = 5;
  std::optional<int> threads;
  std::string remark;  ///< about the machine
  std::string json;
};

/// The strategies of the command line. `all` begins with the plan's choice, unless ranks are
/// threads, whose times mean nothing.
std::vector<std::string> with_auto(const std::string& text, bool threads) {
  const std::string name(config::kAuto);
  const bool named = text == name || text.starts_with(name + ",");
  if (named && threads) {
    throw ConfigError(
        "--strategies auto needs --ranks: the plan's choice follows from measurements of ranks "
        "that are processes");
  }
  if (text == name) return {name};
  std::vector<std::string> all;
  std::string rest = text;
  if ((text == "all" && !threads) || named) {
    all.push_back(name);
    if (text != "all") rest = text.substr(name.size() + 1);
  }
  for (std::string& one : parse_strategies(rest)) all.push_back(std::move(one));
  return all;
}

void show(const train::BenchRow& row) {
  if (!row.refused.empty()) {
    std::printf("%s does not run here\n", row.strategy.c_str());
  } else {
    const std::string predicted =
        row.predicted > Seconds() ? concat(" (predicted ", row.predicted, ")") : std::string();
    std::printf("%s on %s: %.3f s a step%s, loss %.6f\n", row.strategy.c_str(),
                grid::to_string(row.sizes).c_str(), row.step.value(), predicted.c_str(), row.loss);
    if (!row.warning.empty()) std::printf("%s\n", row.warning.c_str());
  }
  std::fflush(stdout);
}

/// The plans of the file as configurations that run here.
std::vector<train::Planned> plans_of(const std::string& file, const config::Config& config,
                                     int ranks) {
  std::vector<train::Planned> plans;
  for (const planner::ReadPlan& plan : planner::read_plans(file)) {
    const int planned = plan.candidate.ranks();
    if (planned != ranks) {
      throw ConfigError(concat("--plans ", file, " is for ", planned, " ranks, and these are ",
                               ranks, "; make it with fourfold plan --gpus ", ranks));
    }
    plans.push_back({planner::apply(config, plan.candidate), plan.step, plan.memory});
    train::check_fit(plans.back().config);
  }
  return plans;
}

train::Bench measure(comm::World& world, const BenchOptions& options, const config::Config& config,
                     const train::Dataset& data, const train::Console& console) {
  if (!options.plans.empty()) {
    return train::compare(world, data, plans_of(options.plans, config, world.size()), options.steps,
                          show);
  }
  const train::Choose choose = [&console](comm::World& ranks, config::Config& one,
                                          std::optional<train::Prediction>& predicted) {
    return planner::choose(ranks, one, predicted, console);
  };
  // A machine is calibrated with processes: that says nothing about threads.
  const train::Predict predict = options.threads ? train::Predict() : planner::predict;
  return train::compare(world, config, data,
                        with_auto(options.strategies, options.threads.has_value()), options.steps,
                        show, choose, predict);
}

/// How well the predictions agree with what was measured; empty for fewer than two predictions.
std::string accuracy_of(const train::Bench& bench) {
  std::vector<train::PredictedAndMeasured> pairs;
  for (const train::BenchRow& row : bench.rows) {
    if (row.predicted > Seconds()) pairs.push_back({row.predicted.value(), row.step.value()});
  }
  if (pairs.size() < 2) return {};
  return to_string(train::accuracy_of(pairs), pairs.size());
}

/// The part of one rank.
void bench(comm::World& world, const BenchOptions& options, config::Config config) {
  const train::Console console = make_console();
  if (world.rank() == 0 && !options.remark.empty()) console.say(options.remark);
  const train::Dataset data = train::open_shared_dataset(world, config, console.show);
  const train::Bench result = measure(world, options, config, data, console);
  if (world.rank() != 0) return;
  const std::string sample =
      config.model.has_images()
          ? concat("images of ", config.model.image, " x ", config.model.image)
          : concat("sequences of ", config.model.context, " tokens");
  std::printf("\n%d ranks, %lld steps each, of %lld %s; MB are 10^6 bytes\n", world.size(),
              static_cast<long long>(options.steps), static_cast<long long>(config.train.batch),
              sample.c_str());
  std::printf("\n%s", train::to_table(result).c_str());
  const std::string accuracy = options.plans.empty() ? std::string() : accuracy_of(result);
  if (!accuracy.empty()) std::printf("\npredicted and measured steps of %s\n", accuracy.c_str());
  if (options.threads) {
    std::printf(
        "\nRanks are threads of one process here: losses, bytes, messages and memory are those "
        "of ranks of their own, times are not.\n");
  }
  std::fflush(stdout);
  if (!options.json.empty()) write_text(options.json, train::to_json(result, world.size()));
}

void check_threads(const BenchOptions& options) {
  constexpr int kMostThreads = 1024;
  if (!options.threads) return;
  if (options.ranks.ranks) throw ConfigError("give --ranks or --threads, not both");
  if (*options.threads < 1 || *options.threads > kMostThreads) {
    throw ConfigError(
        concat("--threads must be from 1 to ", kMostThreads, ", not ", *options.threads));
  }
  static_cast<void>(comm_options(options.ranks));  // throws for impossible values
}

int run(BenchOptions& options, char** argv) {
  if (!options.grid.empty()) {
    throw ConfigError(
        "--grid does not go with bench: every strategy has sizes of its own; see fourfold bench "
        "--help");
  }
  config::Config config = config::read(options.source);
  config.train.init_from.clear();  // every strategy starts with the same random weights
  static_cast<void>(with_auto(options.strategies, options.threads.has_value()));
  if (!options.plans.empty()) static_cast<void>(planner::read_plans(options.plans));
  train::check_gpus(config.device);
  if (options.threads && config.device.kind != config::DeviceKind::kCpu) {
    throw ConfigError("--threads needs device.kind = \"cpu\": a GPU belongs to a process");
  }
  if (options.steps < 1) throw ConfigError("--steps must be at least 1");
  if (!options.json.empty()) check_writable("--json", options.json);
  check_threads(options);
  // The data is prepared once, so that no rank has to wait for it.
  if (options.ranks.ranks || options.threads) {
    config::Config copy = config;
    static_cast<void>(train::open_dataset(copy, make_console().show));
    announce_terminal();
    announce_command(argv);
  }
  options.remark = crowding(config.device);
  tensor::keep_freed_memory();
  if (!options.threads) {
    return run_on_ranks(options.ranks, argv,
                        [&](comm::World& world) { bench(world, options, config); });
  }
  // If there are more ranks than cores, ranks wait for each other's compute.
  comm::Options patient = comm_options(options.ranks);
  if (!patient.deadline) patient.deadline = comm::kDeadline;
  comm::thread::run(
      *options.threads, [&](comm::World& world) { bench(world, options, config); }, patient);
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Command& command) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* bench = app.add_subcommand(
      "bench", "trains some steps with each strategy and puts them side by side");
  add_config_options(*bench, options->source);
  bench->add_option("--grid", options->grid)->group("");  // not in the help
  add_rank_options(*bench, options->ranks);
  bench->add_option("--strategies", options->strategies, "all, or some with commas between them")
      ->capture_default_str();
  bench->add_option("--plans", options->plans,
                    "instead of --strategies: measure the plans that fourfold plan --json wrote to "
                    "this file, beside what it predicted");
  bench->add_option("--steps", options->steps, "of each strategy")->capture_default_str();
  bench->add_option("--threads", options->threads,
                    "instead of --ranks: so many ranks as threads of this process, to see bytes "
                    "and memory of more ranks than the machine has room for");
  bench->add_option("--json", options->json, "write the results to this file as well");
  bench->callback(
      [options, &command] { command = [options](char** argv) { return run(*options, argv); }; });
}

}  // namespace fourfold::app
