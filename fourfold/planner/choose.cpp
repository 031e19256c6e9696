// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/choose.hpp"

#include <algorithm>
#include <thread>

#include "fourfold/base/check.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/planner/calibrate.hpp"
#include "fourfold/planner/calibration_cache.hpp"
#include "fourfold/planner/hosts.hpp"
#include "fourfold/planner/measure_links.hpp"
#include "fourfold/planner/predict.hpp"
#include "fourfold/planner/search.hpp"
#include "fourfold/train/gpu.hpp"
#include "fourfold/train/settle.hpp"
#include "fourfold/train/shared_grid.hpp"

namespace fourfold::planner {

using config::Config;
using train::RankMemory;

namespace {

/// Whether the group of all ranks is about as fast as it was.
bool still_right(comm::World& world, const comm::Communicator& everyone,
                 const cluster::Cluster& known, c10::Device device) {
  constexpr double kMuch = 1.5;
  const cluster::GroupShape shape =
      cluster::shape_of(grid::Grid({.x = world.size()}), grid::Axis::kX, known.gpus_per_host);
  const cluster::MeasuredGroup now = measure_group(everyone, everyone, shape, 3, {}, device);
  const double before = known.link(shape).bandwidth.value();
  const double ratio = now.bandwidth.value() / before;
  return ratio > 1 / kMuch && ratio < kMuch;
}

/// A plan chooses what was not given.
Freedom freedom_of(const config::ParallelConfig::Kept& kept) {
  Freedom freedom;
  freedom.placement = !kept.placement;
  freedom.activations = !kept.activations;
  freedom.checkpoint = !kept.checkpoint;
  freedom.micro_batch = !kept.micro_batch;
  freedom.chunks = !kept.chunks;
  freedom.zero = !kept.zero;
  return freedom;
}

/// Then nothing need be measured.
bool fits_nowhere(const Config& config, const SearchSpec& spec) {
  return std::all_of(spec.strategies.begin(), spec.strategies.end(), [&](const std::string& name) {
    return candidates_of(config, config::strategy_of(name), spec.ranks, spec.freedom).list.empty();
  });
}

std::string describe(const Predicted& best, const SearchResult& found, int ranks) {
  return concat("the plan for ", ranks, " ranks: ", to_string(best.candidate), "; predicted step ",
                best.step, ", ", best.exposed, " of it waiting, ", best.memory,
                " of tensors a rank (", found.evaluated, " of ", found.considered,
                " candidates were run dry)");
}

/// Whether the hosts are such that they can be described as a cluster. If not, tells the user.
bool can_be_planned(const comm::World& world, const train::Console& console) {
  const std::string uneven = uneven_hosts(world);
  if (uneven.empty()) return true;
  if (world.rank() == 0 && console.say) {
    console.say(concat(uneven,
                       ", so the grid is chosen by the bytes that a rank sends: plans are "
                       "for as many ranks on each host, one host after the other"));
  }
  return false;
}

}  // namespace

const Predicted& surest(const std::vector<Predicted>& plans) {
  constexpr double kLonger = 1.25;  // waits
  const auto doubted = [](const Predicted& plan) {
    return plan.compute.value() + kLonger * plan.exposed.value();
  };
  return *std::min_element(plans.begin(), plans.end(),
                           [&](const auto& a, const auto& b) { return doubted(a) < doubted(b); });
}

cluster::Cluster this_cluster(comm::World& world, const config::DeviceConfig& device,
                              const train::Console& console) {
  const comm::Communicator everyone =
      world.communicator(grid::Grid({.x = world.size()}).everyone(world.rank()));
  const bool first = world.rank() == 0;
  if (std::optional<cluster::Cluster> known = cached_cluster(world, device)) {
    if (world.size() == 1 ||
        still_right(world, everyone, *known, train::open_device(world, device))) {
      return *known;
    }
  }
  if (first && console.say) console.say("measuring this machine once, for the plan");
  cluster::Cluster found =
      calibrate(world, {.device = device, .rounds = 3, .show = console.show, .say = console.say});
  put_into_cache(world, device, found);
  return found;
}

std::string choose(comm::World& world, Config& config, std::optional<train::Prediction>& predicted,
                   const train::Console& console) {
  SearchSpec spec;
  spec.ranks = world.size();
  spec.top = 8;
  spec.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  spec.freedom = freedom_of(config.parallel.kept);
  const bool named = config.parallel.strategy != config::kAuto || config.parallel.given;
  if (named || world.size() == 1 || fits_nowhere(config, spec) || !can_be_planned(world, console)) {
    std::string said =
        train::settle_on_all_ranks(world, config, [&](Config& mine, const RankMemory& memory) {
          return train::settle_grid(mine, world.size(), memory);
        });
    predicted = predict(world, config);
    return said;
  }
  const cluster::Cluster cluster = this_cluster(world, config.device, console);
  return train::settle_on_all_ranks(world, config, [&](Config& mine, const RankMemory& memory) {
    spec.memory = memory.bytes;
    const SearchResult found = search(mine, cluster, spec);
    if (found.plans.empty()) {
      mine.parallel.strategy = "4d";
      return train::settle_grid(mine, world.size(), memory);  // says what is missing
    }
    const Predicted& best = surest(found.plans);
    mine = apply(mine, best.candidate);
    predicted = prediction_of(mine, cluster);
    return describe(best, found, world.size());
  });
}

}  // namespace fourfold::planner
