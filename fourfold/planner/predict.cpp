// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/predict.hpp"

#include "fourfold/base/text.hpp"
#include "fourfold/planner/calibration_cache.hpp"
#include "fourfold/planner/hosts.hpp"
#include "fourfold/train/fitting_grids.hpp"
#include "fourfold/train/setup.hpp"

namespace fourfold::planner {

Candidate candidate_of(const config::Config& config) {
  const config::ParallelConfig& parallel = config.parallel;
  return {.strategy = parallel.strategy,
          .sizes = parallel.sizes,
          .placement = parallel.placement,
          .activations = parallel.activations,
          .checkpoint = config.train.checkpoint_activations,
          .micro_batch = config.train.micro_batch,
          .chunks = parallel.chunks,
          .zero = parallel.zero};
}

Evaluation::Traced timeline_of(const config::Config& config, const Candidate& candidate,
                               const cluster::Cluster& cluster) {
  // So many blocks, each in so many passes, are run dry within a second.
  constexpr std::int64_t kMostBlocks = 500;
  const train::Recipe recipe = train::recipe_of(apply(config, candidate));
  const Reduced whole = whole_step(recipe, candidate);
  if (recipe.model->blocks() * whole.passes > kMostBlocks) {
    return Evaluation(config, candidate).trace(candidate.placement, cluster);
  }
  plan::Replayed replayed =
      plan::replay(record(config, candidate, whole).places,
                   grid::Grid(candidate.sizes, candidate.placement), cluster, {.traces = true});
  return {std::move(replayed.traces), true, whole};
}

std::string part_of(const Evaluation::Traced& traced) {
  if (traced.whole) return {};
  const Reduced& size = traced.size;
  return concat(size.blocks, size.blocks == 1 ? " block" : " blocks", " a stage, ", size.passes,
                size.passes == 1 ? " pass" : " passes", " and ", size.places,
                size.places == 1 ? " place" : " places", " of the pipeline");
}

train::Prediction prediction_of(const config::Config& config, const cluster::Cluster& cluster) {
  const Candidate candidate = candidate_of(config);
  const Predicted found = Evaluation(config, candidate).price(candidate.placement, cluster);
  Evaluation::Traced traced = timeline_of(config, candidate, cluster);
  train::Prediction prediction;
  prediction.step = found.step;
  prediction.memory = found.memory;
  prediction.part = part_of(traced);
  prediction.traces = std::move(traced.traces);
  return prediction;
}

namespace {

/// The command that measures these ranks.
std::string calibration_command(const comm::World& world, const config::DeviceConfig& device) {
  std::string command = "fourfold calibrate";
  const bool one_host = world.host(0) == world.host(world.size() - 1);
  if (world.size() > 1 && one_host) command += concat(" --ranks ", world.size());
  if (device.kind != config::DeviceKind::kCpu)
    command += concat(" --kind ", to_string(device.kind));
  if (device.gflops > 0) command += concat(" --gflops ", device.gflops);
  if (device.gbytes_per_second > 0) {
    command += concat(" --gbytes-per-second ", device.gbytes_per_second);
  }
  return one_host ? command : command + " on the same hosts";
}

/// Why nothing is known about the time of a step on these ranks, and what would help.
std::string why_no_time(const comm::World& world, const config::DeviceConfig& device) {
  const std::string uneven = uneven_hosts(world);
  if (!uneven.empty()) {
    return concat("the time of the step was not predicted, since ", uneven,
                  ": predictions are for as many ranks on each host, one host after the other");
  }
  const bool alone = world.size() == 1;  // then there is nothing to choose
  return concat(
      "the time of the step was not predicted, since this machine has not been measured with ",
      world.size(), alone ? " rank" : " ranks", ": ", calibration_command(world, device),
      alone ? "" : ", or a run with parallel.strategy = \"auto\",", " does that once");
}

}  // namespace

train::Prediction predict(comm::World& world, const config::Config& config) {
  const std::optional<cluster::Cluster> cluster = cached_cluster(world, config.device);
  train::Prediction prediction;
  if (!cluster) prediction.missing = why_no_time(world, config.device);
  if (world.rank() != 0) return prediction;
  // Where the model does not fit its grid, building it says why, on all ranks.
  const train::Choice choice = {config.parallel.sizes, config.train.micro_batch};
  if (!train::misfit(config, choice).empty()) return prediction;
  const comm::LongWork long_work = world.long_work("predicting the step");
  if (cluster) return prediction_of(config, *cluster);
  prediction.memory = Evaluation(config, candidate_of(config)).memory();
  return prediction;
}

}  // namespace fourfold::planner
