// fourfold calibrate: measures this machine, job or testbed, and writes it as a cluster for
// fourfold plan.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/calibrate.hpp"

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/base/text_table.hpp"
#include "fourfold/cluster/write.hpp"
#include "fourfold/planner/calibration_cache.hpp"
#include "fourfold/train/gpu.hpp"

#include "apps/fourfold/commands.hpp"
#include "apps/fourfold/console.hpp"
#include "apps/fourfold/ranks.hpp"
#include "apps/fourfold/start.hpp"

namespace fourfold::app {

namespace {

struct CalibrateOptions {
  RankOptions ranks;
  planner::CalibrationSpec spec;
  std::string kind = "cpu";
  std::optional<double> gflops;
  std::optional<double> gbytes_per_second;
  std::optional<double> memory_gib;
  std::string out = "cluster.toml";
};

std::string table_of(const cluster::Cluster& found) {
  TextTable table({"group", "latency", "of long messages", "bandwidth of a rank"}, 1);
  for (const cluster::MeasuredGroup& group : found.network.measured) {
    table.add({to_string(group.shape), to_string(group.latency),
               to_string(group.long_latency.value_or(group.latency)), to_string(group.bandwidth)});
  }
  return table.text();
}

void measure(comm::World& world, CalibrateOptions options) {
  const train::Console console = make_console();
  options.spec.show = console.show;
  options.spec.say = console.say;
  const cluster::Cluster found = planner::calibrate(world, options.spec);
  if (world.rank() != 0) return;
  console.say(concat(found.about, ": products ", found.device.f32, " in f32 and ",
                     found.device.bf16, " in bf16, memory ", found.device.memory_bandwidth,
                     ", compute takes ", found.device.slowdown,
                     " times as long while ranks communicate"));
  if (!found.network.measured.empty()) std::printf("%s", table_of(found).c_str());
  cluster::write(found, options.out);
  // Anything else than a path would be the name of a cluster that comes with the program.
  const bool path = options.out.find('/') != std::string::npos || options.out.ends_with(".toml");
  console.say(concat("written to ", options.out, ": use it with fourfold plan --cluster ",
                     path ? "" : "./", options.out));
  const std::string kept = planner::put_into_cache(world, options.spec.device, found);
  if (!kept.empty()) {
    console.say(concat("runs on these ranks are predicted with it from now on: ", kept));
  }
}

/// 0 where the option was not given.
double above_zero(const char* option, const std::optional<double>& value) {
  if (!value) return 0;
  if (*value > 0 && std::isfinite(*value)) return *value;
  throw ConfigError(concat(option, " must be above 0, not ", *value));
}

config::DeviceKind kind_of(const std::string& name) {
  for (const auto kind : {config::DeviceKind::kCpu, config::DeviceKind::kCuda}) {
    if (to_string(kind) == name) return kind;
  }
  throw ConfigError(concat("--kind must be cpu or cuda, not ", name));
}

int run(CalibrateOptions& options, char** argv) {
  check_writable("--out", options.out);
  if (options.spec.rounds < 1) {
    throw ConfigError(concat("--rounds must be at least 1, not ", options.spec.rounds));
  }
  if (options.spec.name.empty()) throw ConfigError("--name must not be empty");
  config::DeviceConfig& device = options.spec.device;
  device.kind = kind_of(options.kind);
  train::check_gpus(device);
  device.gflops = above_zero("--gflops", options.gflops);
  device.gbytes_per_second = above_zero("--gbytes-per-second", options.gbytes_per_second);
  device.memory_gib = above_zero("--memory-gib", options.memory_gib);
  if (options.ranks.ranks) {
    announce_terminal();
    announce_command(argv);
  }
  return run_on_ranks(options.ranks, argv, [&](comm::World& world) { measure(world, options); });
}

}  // namespace

void add_calibrate(CLI::App& app, Command& command) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* calibrate = app.add_subcommand(
      "calibrate", "measures compute and links of this machine or job, for plan");
  add_rank_options(*calibrate, options->ranks);
  calibrate->add_option("--out", options->out, "the cluster's file")->capture_default_str();
  calibrate->add_option("--name", options->spec.name, "the cluster's name")->capture_default_str();
  calibrate->add_option("--rounds", options->spec.rounds, "how often everything is measured")
      ->capture_default_str();
  calibrate->add_option("--kind", options->kind, "what ranks compute with, as the key device.kind")
      ->capture_default_str();
  calibrate->add_option("--gflops", options->gflops,
                        "emulate a device, as the key device.gflops does");
  calibrate->add_option("--gbytes-per-second", options->gbytes_per_second,
                        "the same for device.gbytes_per_second");
  calibrate->add_option("--memory-gib", options->memory_gib, "the same for device.memory_gib");
  calibrate->callback(
      [options, &command] { command = [options](char** argv) { return run(*options, argv); }; });
}

}  // namespace fourfold::app
