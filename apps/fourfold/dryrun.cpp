// fourfold dryrun: what one rank would compute, send and hold in a training step, on one core.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/formats/schedule_json.hpp"
#include "fourfold/train/dataset.hpp"
#include "fourfold/train/device.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/settle.hpp"
#include "fourfold/train/setup.hpp"

#include "apps/fourfold/commands.hpp"
#include "apps/fourfold/options.hpp"

namespace fourfold::app {

namespace {

using Json = nlohmann::ordered_json;

struct DryrunOptions {
  config::Source source;
  std::optional<int> ranks;
  std::optional<int> rank;
  std::optional<int> ranks_per_host;
  std::string json;
  bool schedule = false;
};

/// How much of some arithmetic there is in a step.
struct Amount {
  std::int64_t times = 0;
  Flops flops;
  Bytes bytes;

  void add(const schedule::Arithmetic& arithmetic) {
    ++times;
    flops += arithmetic.flops;
    bytes += arithmetic.bytes;
  }
};

/// The arithmetic of a step, by what limits it and the phase, and by its names.
struct ComputeTables {
  std::map<std::pair<schedule::Work, schedule::Phase>, Amount> by_work;
  std::map<std::pair<schedule::Work, std::string>, Amount> by_name;
  Flops flops;
  Seconds time;  ///< on the device of the configuration; zero if it has no rates
};

ComputeTables compute_of(const schedule::Schedule& schedule, const tensor::DeviceRates& device) {
  ComputeTables all;
  for (const schedule::Step& step : schedule.steps()) {
    if (const auto* compute = std::get_if<schedule::Compute>(&step)) {
      const schedule::Arithmetic& arithmetic = compute->arithmetic;
      all.by_work[{arithmetic.work, compute->phase}].add(arithmetic);
      all.by_name[{arithmetic.work, compute->name}].add(arithmetic);
      all.flops += arithmetic.flops;
      all.time += device.time_of(arithmetic);
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
  tensor::DeviceRates device;
  ComputeTables compute;
  Bytes memory;  ///< the memory of a rank

  std::string unit;        ///< what data is counted in: tokens or images
  std::int64_t units = 0;  ///< of a step
};

Json to_json(const Result& result) {
  Json json = {{"grid", grid::to_string(result.grid)},
               {"ranks", result.grid.ranks()},
               {"rank", result.rank},
               {"ranks_per_host", result.ranks_per_host},
               {result.unit + "_per_step", result.units},
               {"flops", result.compute.flops.value()},
               {"model_flops", result.recipe.model->flops(result.recipe.batch).value()}};
  if (result.device.any()) json["device_seconds"] = result.compute.time.value();
  const auto add_amount = [](Json row, const Amount& amount) {
    row["times"] = amount.times;
    row["flops"] = amount.flops.value();
    row["bytes"] = amount.bytes.value();
    return row;
  };
  json["work"] = Json::array();
  for (const auto& [key, amount] : result.compute.by_work) {
    json["work"].push_back(
        add_amount({{"work", to_string(key.first)}, {"phase", to_string(key.second)}}, amount));
  }
  json["compute"] = Json::array();
  for (const auto& [key, amount] : result.compute.by_name) {
    json["compute"].push_back(
        add_amount({{"name", key.second}, {"work", to_string(key.first)}}, amount));
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

/// The result as a file, with the schedule as its last member if it is wanted.
std::string to_file(const Result& result, bool schedule) {
  std::string text = to_json(result).dump(2);
  if (!schedule) return text + "\n";
  text.erase(text.rfind('\n'));  // before the closing brace
  return concat(text, ",\n  \"schedule\": ", formats::schedule_json(result.record.schedule),
                "\n}\n");
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

void print_row(const char* first, const char* second, const Amount& amount) {
  std::printf("%-22s %-10s %8lld %14s %12s\n", first, second, static_cast<long long>(amount.times),
              to_string(amount.flops).c_str(), to_string(amount.bytes).c_str());
}

void print_compute(const ComputeTables& compute) {
  std::printf("%-22s %-10s %8s %14s %12s\n", "work", "phase", "times", "flops", "bytes");
  for (const auto& [key, amount] : compute.by_work) {
    print_row(std::string(to_string(key.first)).c_str(), std::string(to_string(key.second)).c_str(),
              amount);
  }
  std::printf("\n%-22s %-10s %8s %14s %12s\n", "compute", "work", "times", "flops", "bytes");
  for (const auto& [key, amount] : compute.by_name) {
    print_row(key.second.c_str(), std::string(to_string(key.first)).c_str(), amount);
  }
}

void print(const Result& result) {
  std::printf("%s, rank %d\n", grid::to_string(result.grid).c_str(), result.rank);
  std::printf("%s\n", hosts_of(result).c_str());
  std::printf("one step of %lld %s: %s on this rank, %s for the whole model\n",
              static_cast<long long>(result.units), result.unit.c_str(),
              to_string(result.compute.flops).c_str(),
              to_string(result.recipe.model->flops(result.recipe.batch)).c_str());
  if (result.device.any()) {
    std::printf("a device of %s computes for %s of it\n", to_string(result.device).c_str(),
                to_string(result.compute.time).c_str());
  }
  std::printf("\n");
  print_compute(result.compute);
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

int run(const DryrunOptions& options) {
  config::Config config = read_without_data(options.source);
  if (!options.json.empty()) check_writable("--json", options.json);
  // Without a number of ranks there is nothing to choose: the given grid or one rank is used.
  if (!options.ranks) config.parallel.given = true;
  const int ranks = options.ranks.value_or(grid::Grid(config.parallel.sizes).ranks());
  const train::RankMemory memory = train::memory_for_dry_run(config);
  const std::string chosen = train::settle_grid(config, ranks, memory);
  Result result;
  result.unit = train::unit_of(config.model);
  result.units = train::units_of_step(config);
  result.grid = grid::Grid(config.parallel.sizes, config.parallel.placement);
  result.recipe = train::recipe_of(config);
  result.rank = options.rank.value_or(train::typical_rank(result.grid, 0, *result.recipe.model));
  result.memory = memory.bytes;
  if (result.rank < 0 || result.rank >= result.grid.ranks()) {
    throw ConfigError(concat("--rank ", result.rank, " is not one of the ", result.grid.ranks(),
                             " ranks 0 to ", result.grid.ranks() - 1));
  }
  result.ranks_per_host = options.ranks_per_host.value_or(result.grid.ranks());
  if (result.ranks_per_host < 1) {
    throw ConfigError(
        concat("--ranks-per-host ", result.ranks_per_host, " must be 1 or more ranks"));
  }
  result.record = train::dry_run(result.grid, result.rank, result.recipe, result.ranks_per_host);
  result.device = train::device_rates(config.device);
  result.compute = compute_of(result.record.schedule, result.device);
  if (!chosen.empty()) std::printf("%s\n", chosen.c_str());
  print(result);
  if (!options.json.empty()) {
    write_text(options.json, to_file(result, options.schedule));
  } else if (options.schedule) {
    std::printf("\n%s", schedule::to_string(result.record.schedule).c_str());
  }
  return 0;
}

}  // namespace

void add_dryrun(CLI::App& app, Command& command) {
  auto options = std::make_shared<DryrunOptions>();
  CLI::App* dryrun = app.add_subcommand(
      "dryrun", "schedule, bytes, flops and memory of one rank of any grid, on one core");
  add_config_options(*dryrun, options->source);
  add_grid_option(*dryrun, options->source);
  dryrun->add_option("--ranks", options->ranks, "without --grid: choose a grid of so many ranks");
  dryrun->add_option("--rank", options->rank,
                     "the rank to look at (unless given: one that sends as "
                     "much as any, 0 for text)");
  dryrun->add_option("--ranks-per-host", options->ranks_per_host,
                     "for the number of messages: so many ranks share a host (unless given: all)");
  dryrun->add_flag("--schedule", options->schedule,
                   "print every step of the schedule as well; with --json, write them to the file");
  dryrun->add_option("--json", options->json, "write the result to this file as well");
  dryrun->callback(
      [options, &command] { command = [options](char** /*argv*/) { return run(*options); }; });
}

}  // namespace fourfold::app
