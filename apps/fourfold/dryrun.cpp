// fourfold dryrun: what one rank would compute, send and hold in a training step, on one core.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/settle.hpp"
#include "fourfold/train/setup.hpp"

#include "apps/fourfold/commands.hpp"
#include "apps/fourfold/options.hpp"

namespace fourfold::app {

namespace {

using Json = nlohmann::ordered_json;

struct Options {
  config::Source source;
  std::optional<int> ranks;
  int rank = 0;
  std::optional<int> ranks_per_host;
  std::string json;
  bool schedule = false;
};

/// The arithmetic of one kind in a step.
struct Work {
  std::int64_t times = 0;
  Flops flops;
  Bytes bytes;
};

std::map<std::string, Work> compute_by_name(const schedule::Schedule& schedule) {
  std::map<std::string, Work> all;
  for (const schedule::Step& step : schedule.steps()) {
    if (const auto* compute = std::get_if<schedule::Compute>(&step)) {
      Work& work = all[compute->name];
      ++work.times;
      work.flops += compute->arithmetic.flops;
      work.bytes += compute->arithmetic.bytes;
    }
  }
  return all;
}

/// The data of the printed tables and of the file.
struct Result {
  grid::Grid grid;
  int rank = 0;
  int ranks_per_host = 0;
  train::Recipe recipe;
  train::StepRecord record;
  std::map<std::string, Work> compute;
  Flops flops;
  Bytes memory;  ///< the memory of a rank

  std::int64_t tokens() const { return recipe.model->terms(recipe.batch); }
};

Json to_json(const Result& result) {
  Json json = {{"grid", grid::to_string(result.grid)},
               {"ranks", result.grid.ranks()},
               {"rank", result.rank},
               {"ranks_per_host", result.ranks_per_host},
               {"tokens_per_step", result.tokens()},
               {"flops", result.flops.value()},
               {"model_flops", result.recipe.model->flops(result.recipe.batch).value()}};
  json["compute"] = Json::array();
  for (const auto& [name, work] : result.compute) {
    json["compute"].push_back({{"name", name},
                               {"times", work.times},
                               {"flops", work.flops.value()},
                               {"bytes", work.bytes.value()}});
  }
  json["communication"] = Json::array();
  for (const auto& [key, count] : result.record.counts) {
    json["communication"].push_back({{"op", schedule::to_string(key.op)},
                                     {"axes", key.axes},
                                     {"group_size", key.group_size},
                                     {"calls", count.calls},
                                     {"payload_bytes", count.payload.value()},
                                     {"wire_bytes", count.wire.bytes.value()},
                                     {"messages", count.wire.messages}});
  }
  for (std::size_t i = 0; i < tensor::kPlannedClasses; ++i) {
    const auto kind = static_cast<tensor::MemoryClass>(i);
    json["memory"][to_string(kind)] = result.record.peaks[kind].value();
    json["memory_at_peak"][to_string(kind)] = result.record.at_peak[kind].value();
    json["construction"][to_string(kind)] = result.record.construction[kind].value();
  }
  json["construction_bytes"] = result.record.construction.total().value();
  json["peak_bytes"] = result.record.peak().value();
  json["memory_bytes"] = result.memory.value();
  return json;
}

Json steps_of(const schedule::Schedule& schedule) {
  Json steps = Json::array();
  for (const schedule::Step& step : schedule.steps()) steps.push_back(schedule::to_string(step));
  return steps;
}

/// Describes the hosts. The number of messages depends on them, since messages between hosts are
/// shorter than inside a host.
std::string hosts_of(const Result& result) {
  const int ranks = result.grid.ranks();
  if (ranks == 1) return "a rank alone sends nothing";
  if (result.ranks_per_host >= ranks) {
    return concat("messages are counted as if all ", ranks,
                  " ranks were on one host; --ranks-per-host N says otherwise");
  }
  const int hosts = (ranks + result.ranks_per_host - 1) / result.ranks_per_host;
  return concat("messages are counted for ", hosts, " hosts with ", result.ranks_per_host,
                result.ranks_per_host == 1 ? " rank each" : " ranks each, in the order of ranks");
}

void print(const Result& result) {
  std::printf("%s, rank %d\n", grid::to_string(result.grid).c_str(), result.rank);
  std::printf("%s\n", hosts_of(result).c_str());
  std::printf("one step of %lld tokens: %s on this rank, %s for the whole model\n\n",
              static_cast<long long>(result.tokens()), to_string(result.flops).c_str(),
              to_string(result.recipe.model->flops(result.recipe.batch)).c_str());
  std::printf("%-22s %8s %14s %12s\n", "compute", "times", "flops", "bytes");
  for (const auto& [name, work] : result.compute) {
    std::printf("%-22s %8lld %14s %12s\n", name.c_str(), static_cast<long long>(work.times),
                to_string(work.flops).c_str(), to_string(work.bytes).c_str());
  }
  std::printf("\n%-15s %-16s %6s %7s %12s %12s %9s\n", "communication", "axes", "ranks", "calls",
              "payload", "sent", "messages");
  for (const auto& [key, count] : result.record.counts) {
    std::printf("%-15s %-16s %6d %7lld %12s %12s %9lld\n",
                std::string(schedule::to_string(key.op)).c_str(), key.axes.c_str(), key.group_size,
                static_cast<long long>(count.calls), to_string(count.payload).c_str(),
                to_string(count.wire.bytes).c_str(), static_cast<long long>(count.wire.messages));
  }
  std::printf("\n%-15s %12s %12s %12s\n", "memory", "construction", "at the peak", "largest");
  for (std::size_t i = 0; i < tensor::kPlannedClasses; ++i) {
    const auto kind = static_cast<tensor::MemoryClass>(i);
    std::printf("%-15s %12s %12s %12s\n", std::string(to_string(kind)).c_str(),
                to_string(result.record.construction[kind]).c_str(),
                to_string(result.record.at_peak[kind]).c_str(),
                to_string(result.record.peaks[kind]).c_str());
  }
  std::printf("%-15s %12s %12s\n", "all", to_string(result.record.construction.total()).c_str(),
              to_string(result.record.at_peak.total()).c_str());
}

int run(const Options& options) {
  config::Config config = config::read(options.source);
  if (!options.json.empty()) check_writable("--json", options.json);
  if (config.model.vocab == 0) config.model.vocab = 256;  // of the tokenizer "bytes"
  // Without a number of ranks there is nothing to choose: the given grid or one rank is used.
  if (!options.ranks) config.parallel.given = true;
  const int ranks = options.ranks.value_or(grid::Grid(config.parallel.sizes).ranks());
  const train::RankMemory memory = train::memory_for_dry_run(config);
  const std::string chosen = train::settle_grid(config, ranks, memory);
  Result result;
  result.grid = grid::Grid(config.parallel.sizes, config.parallel.placement);
  result.rank = options.rank;
  result.memory = memory.bytes;
  if (options.rank < 0 || options.rank >= result.grid.ranks()) {
    throw ConfigError(concat("--rank ", options.rank, " is not one of the ", result.grid.ranks(),
                             " ranks 0 to ", result.grid.ranks() - 1));
  }
  result.ranks_per_host = options.ranks_per_host.value_or(result.grid.ranks());
  if (result.ranks_per_host < 1) {
    throw ConfigError(
        concat("--ranks-per-host ", result.ranks_per_host, " must be 1 or more ranks"));
  }
  result.recipe = train::recipe_of(config);
  result.record = train::dry_run(result.grid, result.rank, result.recipe, result.ranks_per_host);
  result.compute = compute_by_name(result.record.schedule);
  for (const auto& [name, work] : result.compute) result.flops += work.flops;
  if (!chosen.empty()) std::printf("%s\n", chosen.c_str());
  print(result);
  if (options.schedule) std::printf("\n%s", schedule::to_string(result.record.schedule).c_str());
  if (options.json.empty()) return 0;
  Json json = to_json(result);
  json["schedule"] = steps_of(result.record.schedule);
  write_text(options.json, json.dump(2) + "\n");
  return 0;
}

}  // namespace

void add_dryrun(CLI::App& app, Command& command) {
  auto options = std::make_shared<Options>();
  options->source.needs_data = false;
  CLI::App* dryrun = app.add_subcommand(
      "dryrun", "schedule, bytes, flops and memory of one rank of any grid, on one core");
  add_config_options(*dryrun, options->source);
  add_grid_option(*dryrun, options->source);
  dryrun->add_option("--ranks", options->ranks, "without --grid: choose a grid of so many ranks");
  dryrun->add_option("--rank", options->rank, "the rank to look at")->capture_default_str();
  dryrun->add_option("--ranks-per-host", options->ranks_per_host,
                     "for the number of messages: so many ranks share a host (unless given: all)");
  dryrun->add_flag("--schedule", options->schedule, "print every step of the schedule as well");
  dryrun->add_option("--json", options->json, "write the result to this file as well");
  dryrun->callback(
      [options, &command] { command = [options](char** /*argv*/) { return run(*options); }; });
}

}  // namespace fourfold::app
