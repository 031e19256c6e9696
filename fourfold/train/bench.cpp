// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/bench.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "fourfold/base/check.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/train/all_ranks.hpp"
#include "fourfold/train/device.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/gpu.hpp"
#include "fourfold/train/metrics.hpp"
#include "fourfold/train/settle.hpp"
#include "fourfold/train/setup.hpp"
#include "fourfold/train/shared_grid.hpp"

namespace fourfold::train {

using config::Config;

namespace {

/// What is given stays as it is in a plan, as in a run without a grid.
void keep_given(config::ParallelConfig& parallel, const config::ParallelConfig& given) {
  parallel.kept = given.kept;
  if (given.kept.activations) parallel.activations = given.activations;
  if (given.kept.chunks) parallel.chunks = given.chunks;
  if (given.kept.zero) parallel.zero = given.zero;
}

/// The configuration with the settings that the strategy fixes, and no grid yet.
Config without_sizes(const Config& config, const std::string& strategy) {
  config::Draft draft{.config = config, .file = {}, .places = {}};
  draft.config.parallel = {};
  draft.config.parallel.strategy = strategy;
  draft.config.parallel.placement = config.parallel.placement;
  if (config::strategy_of(strategy).own.contains(grid::Axis::kPipe)) {
    draft.config.parallel.chunks = config.parallel.chunks;
  }
  config::resolve_strategy(draft);
  if (strategy == config::kAuto) keep_given(draft.config.parallel, config.parallel);
  return draft.config;
}

}  // namespace

Config with_strategy(const Config& config, const std::string& strategy, int ranks,
                     const RankMemory& memory) {
  Config one = without_sizes(config, strategy);
  settle_grid(one, ranks, memory);
  check_fit(one);
  return one;
}

namespace {

Seconds now() {
  return Seconds(
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

/// The largest and the smallest of each number over all ranks.
std::vector<Extent> extents(const Mesh& mesh, const std::vector<double>& numbers) {
  std::vector<double> both = numbers;
  for (const double number : numbers) both.push_back(-number);
  both = largest(mesh, std::move(both));
  std::vector<Extent> all;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    all.push_back({both[i], -both[i + numbers.size()]});
  }
  return all;
}

/// What a rank has sent in a step.
struct Sent {
  std::map<std::string, double> bytes;
  double messages = 0;
};

Sent sent_in_a_step(const comm::Counts& counts, std::int64_t steps) {
  Sent sent;
  // Every group there can be: the stages of a pipeline join different ones, and all ranks must
  // compare the same list.
  for (const grid::Axes& axes : grid::all_lists_of_axes()) sent.bytes[grid::to_string(axes)] = 0;
  for (const auto& [key, count] : counts) {
    sent.bytes.at(key.axes) += static_cast<double>(count.wire.bytes.value());
    sent.messages += static_cast<double>(count.wire.messages);
  }
  for (auto& [name, bytes] : sent.bytes) bytes /= static_cast<double>(steps);
  sent.messages /= static_cast<double>(steps);
  return sent;
}

void add_traffic(BenchRow& row, const Mesh& mesh, const Sent& sent) {
  std::vector<double> numbers = {sent.messages, 0};
  for (const auto& [name, bytes] : sent.bytes) {
    numbers.push_back(bytes);
    numbers[1] += bytes;
  }
  const std::vector<Extent> all = extents(mesh, numbers);
  row.messages = all[0];
  row.bytes = all[1];
  std::size_t i = 2;
  for (const auto& [name, bytes] : sent.bytes) {
    if (all[i].largest > 0) row.sent[name] = all[i];
    ++i;
  }
}

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  const std::size_t middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2;
}

/// The share of the step that compute waits for the groups along each list of axes.
using Waits = std::map<std::string, double>;

void add_waits(Waits& waits, const comm::Counts& of_step, Seconds step) {
  for (const auto& [key, count] : of_step) waits[key.axes] += count.exposed_seconds / step;
}

/// The mean of the steps and of all ranks, which need not wait for the same axes.
void put_waits(BenchRow& row, const Mesh& mesh, Waits waits, std::int64_t steps) {
  std::set<std::string> names;  // several lists may have the same one: all axes in any order
  for (const grid::Axes& axes : grid::all_lists_of_axes()) names.insert(grid::to_string(axes));
  std::vector<double> shares;
  for (const std::string& name : names) shares.push_back(waits[name]);
  const auto count = static_cast<std::int64_t>(shares.size());
  if (mesh.everyone().size() > 1) {
    mesh.everyone().all_reduce({shares.data(), count, schedule::DType::kF64}).wait();
  }
  const double all = static_cast<double>(steps) * mesh.everyone().size();
  auto name = names.begin();
  for (const double sum : shares) {
    const double share = sum / all;
    row.exposed += share;
    if (share > 0) row.waits[*name] = share;
    ++name;
  }
}

/// What the ranks compute with.
struct Machine {
  c10::Device where;    // the tensors of this rank
  FlopsPerSecond rate;  // of all ranks together
};

/// Trains with one strategy.
void measure(BenchRow& row, comm::World& world, const Config& config, const Dataset& data,
             std::int64_t steps, const Machine& machine, tensor::MemoryMeter& meter) {
  Device device(world, config.device, meter);
  const Recipe recipe = recipe_of(config);
  const Mesh mesh(world, grid::Grid(config.parallel.sizes, config.parallel.placement),
                  recipe.overlap, machine.where);
  Trainer trainer(mesh, recipe);
  const ReadSample read = read_training(data);
  world.reset_counters();
  std::vector<double> times;
  comm::Counts counts;
  Waits waits;
  for (std::int64_t number = 1; number <= steps; ++number) {
    const Seconds begin = now();
    device.begin_step();
    row.loss = trainer.step(number, read).loss;
    // Else the next step waits for the update, as far as it must.
    if (steps == 1) world.resolve();
    device.end_step();
    const Seconds time = now() - begin;
    const comm::Counts of_step = world.take_counters_so_far();
    if (number > 1) add_waits(waits, of_step, time);
    add(counts, of_step);
    times.push_back(time.value());
  }
  trainer.finish();
  add(counts, world.counters());
  add_traffic(row, mesh, sent_in_a_step(counts, steps));
  const tensor::MemoryUse peaks = meter.peaks();
  const auto peak = static_cast<double>(meter.at_peak().total().value());
  std::vector<double> bytes;
  for (const Bytes one : peaks.by_class) bytes.push_back(static_cast<double>(one.value()));
  const std::vector<Extent> memory = extents(mesh, bytes);
  std::copy(memory.begin(), memory.end(), row.memory.begin());
  row.peak = extents(mesh, {peak}).front();
  row.warning = device.warning(mesh);
  times = largest(mesh, std::move(times));
  // The first step is slower because of one-time work.
  if (steps > 1) times.erase(times.begin());
  row.fastest = Seconds(*std::min_element(times.begin(), times.end()));
  row.step = Seconds(median(std::move(times)));
  if (steps > 1) put_waits(row, mesh, std::move(waits), steps - 1);
  row.mfu = recipe.model->flops(recipe.batch) / row.step / machine.rate;
}

}  // namespace

namespace {

void put_prediction(BenchRow& row, const std::optional<Prediction>& predicted) {
  if (!predicted) return;
  row.predicted = predicted->step;
  row.predicted_peak = predicted->memory;
  row.missing = predicted->missing;
}

/// The configuration of the strategy on every rank. If it is refused, returns nothing and puts the
/// reason into the row.
std::optional<Config> settled(comm::World& world, const Config& config, BenchRow& row,
                              const Choose& choose, const Predict& predict) {
  Config one = without_sizes(config, row.strategy);
  try {
    if (row.strategy == config::kAuto && choose) {
      std::optional<Prediction> predicted;
      choose(world, one, predicted);
      put_prediction(row, predicted);
      return one;
    }
    settle_on_all_ranks(world, one, [&](Config& mine, const RankMemory& memory) {
      mine = with_strategy(config, row.strategy, world.size(), memory);
      return std::string();
    });
  } catch (const ConfigError& error) {
    row.refused = error.what();
    return std::nullopt;
  }
  if (predict) put_prediction(row, predict(world, one));
  return one;
}

Machine open_machine(comm::World& world, const Config& config) {
  const c10::Device where = open_device(world, config.device);
  const Mesh all(world, grid::Grid({.data = world.size()}), {}, where);
  return {where,
          peak_rate(all, config.device, recipe_of(config).model->execution().precision.compute)};
}

void measure_plan(BenchRow& row, comm::World& world, const Config& config, const Dataset& data,
                  std::int64_t steps, const Machine& machine) {
  row.sizes = config.parallel.sizes;
  row.passes = config.train.batch / config.train.micro_batch;
  row.chunks = config.parallel.chunks;
  tensor::MemoryMeter meter(type_of(config.device));
  const tensor::MemoryMeter::Counting counting(meter);
  const auto expected = [&] {
    const grid::Grid grid(config.parallel.sizes, config.parallel.placement);
    return dry_run(grid, world.rank(), recipe_of(config)).peak();
  };
  explain_full_gpu(row.strategy, world.rank(), meter, expected,
                   [&] { measure(row, world, config, data, steps, machine, meter); });
}

}  // namespace

Bench compare(comm::World& world, const Config& config, const Dataset& data,
              const std::vector<std::string>& strategies, std::int64_t steps,
              const std::function<void(const BenchRow&)>& tell, const Choose& choose,
              const Predict& predict) {
  Bench bench;
  const Machine machine = open_machine(world, config);
  bench.gemm_flops = machine.rate;
  for (const std::string& name : strategies) {
    BenchRow row;
    row.strategy = name;
    if (const std::optional<Config> one = settled(world, config, row, choose, predict)) {
      measure_plan(row, world, *one, data, steps, machine);
      world.release_device_communicators();
    }
    if (world.rank() == 0) tell(row);
    bench.rows.push_back(row);
  }
  return bench;
}

Bench compare(comm::World& world, const Dataset& data, const std::vector<Planned>& plans,
              std::int64_t steps, const std::function<void(const BenchRow&)>& tell) {
  Bench bench;
  if (plans.empty()) return bench;
  const Machine machine = open_machine(world, plans.front().config);
  bench.gemm_flops = machine.rate;
  for (const Planned& plan : plans) {
    BenchRow row;
    row.strategy = plan.config.parallel.strategy;
    row.predicted = plan.step;
    row.predicted_peak = plan.peak;
    measure_plan(row, world, plan.config, data, steps, machine);
    world.release_device_communicators();
    if (world.rank() == 0) tell(row);
    bench.rows.push_back(row);
  }
  return bench;
}

}  // namespace fourfold::train
