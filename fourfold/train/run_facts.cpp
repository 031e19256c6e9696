// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/run_facts.hpp"

#include <array>
#include <cstdio>
#include <ctime>

#include "fourfold/base/text.hpp"
#include "fourfold/model/kinds.hpp"
#include "fourfold/train/metrics.hpp"
#include "fourfold/train/setup.hpp"

namespace fourfold::train {

namespace {

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 40> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S %z", &parts);
  return text.data();
}

std::string formatted(const char* format, double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

/// "812,544", "124.4 M", "79.9 B".
std::string short_count(std::int64_t number) {
  constexpr double kMillion = 1e6;
  constexpr double kBillion = 1e9;
  const auto value = static_cast<double>(number);
  if (value < kMillion) return with_commas(number);
  if (value < kBillion) return formatted("%.1f M", value / kMillion);
  return formatted("%.1f B", value / kBillion);
}

std::string epochs_of(const RunFacts& facts) {
  return concat(formatted(facts.epochs < 0.01 ? "%.2g" : "%.2f", facts.epochs), " epochs of ",
                with_commas(facts.train_units), " ", facts.unit);
}

std::vector<std::pair<std::string, int>> hosts_of(const comm::World& world) {
  std::vector<std::pair<std::string, int>> hosts;
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::string host = world.host(rank);
    auto found = hosts.begin();
    while (found != hosts.end() && found->first != host) ++found;
    if (found == hosts.end()) found = hosts.insert(found, {host, 0});
    ++found->second;
  }
  return hosts;
}

}  // namespace

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  constexpr std::size_t kDigits = 3;
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + kDigits;) {
    at -= kDigits;
    text.insert(at, 1, ',');
  }
  return text;
}

RunFacts facts_of(const comm::World& world, const config::Config& config, const Dataset& data) {
  RunFacts facts;
  facts.started = time_now();
  facts.hosts = hosts_of(world);
  facts.strategy = config.parallel.strategy;
  facts.grid = grid::to_string(config.parallel.sizes);
  facts.precision = config::to_string(config.train.precision);
  const model::ModelPtr model = model::model_of(config);
  facts.parameters = model->parameter_count();
  facts.steps = config.train.steps;
  facts.samples_per_step = config.train.batch;
  facts.unit = unit_of(config.model);
  facts.units_per_step = units_of_step(config);
  for (const std::string* path : {&config.data.text, &config.data.tokens, &config.data.images}) {
    if (!path->empty()) facts.data = *path;
  }
  facts.train_units = data.train_units;
  facts.validation_units = data.validation_units;
  facts.epochs = static_cast<double>(config.train.steps) * static_cast<double>(config.train.batch) /
                 static_cast<double>(data.train->samples());
  facts.init_from = config.train.init_from;
  return facts;
}

std::string describe(const RunFacts& facts) {
  // A sample of tokens is a sequence of them; an image is a sample by itself.
  const std::string sequences =
      facts.units_per_step == facts.samples_per_step
          ? std::string()
          : concat(" (", with_commas(facts.samples_per_step), " sequences of ",
                   with_commas(facts.units_per_step / facts.samples_per_step), ")");
  return concat(short_count(facts.parameters), " parameters in ", facts.precision, ", strategy ",
                facts.strategy, " on ", facts.grid, "; ", with_commas(facts.steps), " steps of ",
                with_commas(facts.units_per_step), " ", facts.unit, sequences, ": ",
                epochs_of(facts));
}

Facts listed(const RunFacts& facts) {
  std::vector<std::string> hosts;
  for (const auto& [host, ranks] : facts.hosts) {
    hosts.push_back(concat(host, " (", ranks, ranks == 1 ? " rank)" : " ranks)"));
  }
  Facts all = {{"started", facts.started},
               {"total time", short_time(facts.total)},
               {"command", facts.command},
               {"hosts", join(hosts, ", ")},
               {"strategy", facts.strategy},
               {"grid", facts.grid},
               {"parameters", with_commas(facts.parameters)},
               {"precision", facts.precision},
               {facts.unit + " a step", with_commas(facts.units_per_step)},
               {"trained on", epochs_of(facts)},
               {"data", concat(facts.data, ": ", with_commas(facts.train_units), " ", facts.unit,
                               " and ", with_commas(facts.validation_units), " for validation")},
               {"weights from", facts.init_from}};
  all.insert(all.end(), facts.versions.begin(), facts.versions.end());
  std::erase_if(all, [](const auto& fact) { return fact.second.empty(); });
  return all;
}

}  // namespace fourfold::train
