// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/bench.hpp"

#include <algorithm>
#include <chrono>

#include "fourfold/base/check.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/train/all_ranks.hpp"
#include "fourfold/train/metrics.hpp"
#include "fourfold/train/setup.hpp"

namespace fourfold::train {

using config::Config;
using config::Strategy;

namespace {

constexpr std::int64_t kPassesAPlace = 4;  // enough that a pipeline idles a fifth of the time

/// The most micro-batches, up to some for each place of the pipeline, that the batch can be cut
/// into; 0 if none.
std::int64_t passes_for(std::int64_t batch, const grid::Sizes& sizes) {
  for (std::int64_t passes = kPassesAPlace * sizes.pipe; passes > 0; --passes) {
    if (batch % passes == 0 && batch / passes % (sizes.data * sizes.z) == 0) return passes;
  }
  return 0;
}

/// Of the grids with a pipeline the one that is most like a cube: bytes say nothing about how long
/// its ranks idle.
void settle_pipeline(Config& config, const Strategy& strategy, int ranks) {
  const auto longest = [](const grid::Sizes& s) { return std::max({s.y, s.data, s.pipe}); };
  int shortest = ranks + 1;
  for (const grid::Sizes& sizes : config::grids_of(strategy, ranks)) {
    Config one = config;
    one.parallel.sizes = sizes;
    one.parallel.given = true;
    if (one.train.micro_batch == one.train.batch && sizes.pipe > 1) {
      const std::int64_t passes = passes_for(one.train.batch, sizes);
      if (passes == 0) continue;
      one.train.micro_batch = one.train.batch / passes;
    }
    const bool fits = model::fits(recipe_of(one).model, sizes, one.train.micro_batch);
    if (!fits || longest(sizes) >= shortest) continue;
    shortest = longest(sizes);
    config = one;
  }
  if (shortest > ranks) {
    throw ConfigError(concat("no grid of ", ranks, " ranks of the strategy ", strategy.name,
                             " fits this model and a batch of ", config.train.batch));
  }
}

}  // namespace

Config with_strategy(const Config& config, const std::string& name, int ranks) {
  const Strategy& strategy = config::strategy_of(name);
  config::Draft draft{.config = config, .file = {}, .places = {}};
  draft.config.parallel = {};
  draft.config.parallel.strategy = name;
  draft.config.parallel.placement = config.parallel.placement;
  config::resolve_strategy(draft);
  if (strategy.own.contains(grid::Axis::kPipe)) {
    settle_pipeline(draft.config, strategy, ranks);
  } else {
    settle_grid(draft.config, ranks);
  }
  check_fit(draft.config);
  return draft.config;
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

Sent sent_in_a_step(const Mesh& mesh, const comm::Counts& counts, std::int64_t steps) {
  Sent sent;
  for (const std::string& name : mesh.group_names()) sent.bytes[name] = 0;
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

double mean_of_all(const Mesh& mesh, double number) {
  if (mesh.everyone().size() == 1) return number;
  mesh.everyone().all_reduce({&number, 1, schedule::DType::kF64}).wait();
  return number / mesh.everyone().size();
}

/// Trains with one strategy.
void measure(BenchRow& row, comm::World& world, const Config& config, const Dataset& data,
             std::int64_t steps, FlopsPerSecond rate) {
  tensor::MemoryMeter meter;
  const tensor::MemoryMeter::Counting counting(meter);
  const Recipe recipe = recipe_of(config);
  const Mesh mesh(world, grid::Grid(config.parallel.sizes, config.parallel.placement),
                  recipe.overlap);
  Trainer trainer(mesh, recipe);
  meter.reset_peak();  // values were copied while it was built
  const ReadSample read = read_training(data);
  world.reset_counters();
  std::vector<double> times;
  comm::Counts counts;
  double exposed_share = 0;
  for (std::int64_t number = 1; number <= steps; ++number) {
    const Seconds begin = now();
    row.loss = trainer.step(number, read).loss;
    const Seconds time = now() - begin;
    comm::Counts of_step = world.counters();
    if (number > 1) exposed_share += exposed(of_step) / time;
    add(counts, of_step);
    world.reset_counters();
    times.push_back(time.value());
  }
  trainer.settle();
  add(counts, world.counters());
  add_traffic(row, mesh, sent_in_a_step(mesh, counts, steps));
  const tensor::MemoryUse peaks = meter.peaks();
  std::vector<double> bytes;
  for (const Bytes one : peaks.by_class) bytes.push_back(static_cast<double>(one.value()));
  const std::vector<Extent> memory = extents(mesh, bytes);
  std::copy(memory.begin(), memory.end(), row.memory.begin());
  times = largest(mesh, std::move(times));
  // The first step is slower for reasons of its own.
  if (steps > 1) times.erase(times.begin());
  std::sort(times.begin(), times.end());
  row.step = Seconds(times[times.size() / 2]);
  row.exposed = steps == 1 ? 0 : mean_of_all(mesh, exposed_share / static_cast<double>(steps - 1));
  const Flops flops = model_flops(recipe.model, recipe.batch * recipe.model.context);
  row.mfu = flops / row.step / rate;
}

}  // namespace

Bench compare(comm::World& world, const Config& config, const Dataset& data,
              const std::vector<std::string>& strategies, std::int64_t steps,
              const std::function<void(const BenchRow&)>& tell) {
  Bench bench;
  {
    const Mesh all(world, grid::Grid({.data = world.size()}));
    bench.gemm_flops = measure_gemm_rate(all, recipe_of(config).model.precision.compute);
  }
  for (const std::string& name : strategies) {
    BenchRow row;
    row.strategy = name;
    try {
      const Config one = with_strategy(config, name, world.size());
      row.sizes = one.parallel.sizes;
      row.passes = one.train.batch / one.train.micro_batch;
      row.chunks = one.parallel.chunks;
      measure(row, world, one, data, steps, bench.gemm_flops);
    } catch (const ConfigError& error) {
      row.refused = error.what();  // before anything was communicated, and the same on all ranks
    }
    if (world.rank() == 0) tell(row);
    bench.rows.push_back(row);
  }
  return bench;
}

}  // namespace fourfold::train
