// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/choose.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <thread>

#include "fourfold/base/check.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/processor.hpp"
#include "fourfold/cluster/load.hpp"
#include "fourfold/cluster/write.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/data/prepare.hpp"
#include "fourfold/planner/calibrate.hpp"
#include "fourfold/planner/measure_links.hpp"
#include "fourfold/planner/search.hpp"
#include "fourfold/train/settle.hpp"
#include "fourfold/train/shared_grid.hpp"

namespace fourfold::planner {

using config::Config;
using train::RankMemory;

namespace {

/// The file of a machine: what it depends on is in its name.
std::string cache_file(const comm::World& world, const config::DeviceConfig& device) {
  std::string name =
      concat(world.host(0), "-", world.size(), "-ranks-", ranks_per_host(world), "-a-host");
  if (device.gflops > 0) name += concat("-", device.gflops, "-gflops");
  if (device.gbytes_per_second > 0) name += concat("-", device.gbytes_per_second, "-gbytes");
  if (device.memory_gib > 0) name += concat("-", device.memory_gib, "-gib");
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '-') letter = '_';
  }
  return concat(data::default_cache_folder(), "/clusters/", name, ".toml");
}

/// The same text on all ranks, from the first.
std::string shared(const comm::Communicator& everyone, std::string text) {
  std::array<std::int64_t, 1> length = {static_cast<std::int64_t>(text.size())};
  everyone.broadcast(comm::view(length), 0).wait();
  std::vector<std::int64_t> letters(text.begin(), text.end());
  letters.resize(static_cast<std::size_t>(length[0]));
  everyone.broadcast(comm::view(letters), 0).wait();
  return {letters.begin(), letters.end()};
}

/// Whether the group of all ranks is about as fast as it was.
bool still_right(comm::World& world, const comm::Communicator& everyone,
                 const cluster::Cluster& known) {
  constexpr double kMuch = 1.5;
  const cluster::GroupShape shape =
      cluster::shape_of(grid::Grid({.x = world.size()}), grid::Axis::kX, known.gpus_per_host);
  const cluster::MeasuredGroup now = measure_group(everyone, everyone, shape, 3);
  const double before = known.link(shape).bandwidth.value();
  const double ratio = now.bandwidth.value() / before;
  return ratio > 1 / kMuch && ratio < kMuch;
}

std::optional<cluster::Cluster> from_cache(const comm::Communicator& everyone,
                                           const std::string& file, bool first) {
  std::string text;
  if (first && std::filesystem::exists(file)) {
    try {
      text = cluster::to_toml(cluster::load(file));
    } catch (const Error&) {
      text.clear();  // it was written by another version, and is made again
    }
  }
  text = shared(everyone, std::move(text));
  if (text.empty()) return std::nullopt;
  return cluster::parse(text, file);
}

void put_into_cache(const cluster::Cluster& cluster, const std::string& file) {
  std::error_code ignored;  // without a cache the next run measures again
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), ignored);
  if (!ignored) cluster::write(cluster, file);
}

std::string describe(const SearchResult& found, int ranks) {
  const Predicted& best = found.plans.front();
  return concat("the plan for ", ranks, " ranks: ", to_string(best.candidate), "; predicted step ",
                best.step, ", ", best.exposed, " of it waiting, ", best.memory,
                " of tensors a rank (", found.evaluated, " of ", found.considered,
                " candidates were run dry)");
}

}  // namespace

cluster::Cluster this_cluster(comm::World& world, const config::DeviceConfig& device,
                              const train::Console& console) {
  const comm::Communicator everyone =
      world.communicator(grid::Grid({.x = world.size()}).everyone(world.rank()));
  const bool first = world.rank() == 0;
  const std::string file = cache_file(world, device);
  if (std::optional<cluster::Cluster> known = from_cache(everyone, file, first)) {
    if (world.size() == 1 || still_right(world, everyone, *known)) return *known;
  }
  if (first && console.say) console.say("measuring this machine once, for the plan");
  cluster::Cluster found = calibrate(world, {.device = device, .rounds = 3, .show = console.show});
  if (first) put_into_cache(found, file);
  return found;
}

std::string choose(comm::World& world, Config& config, std::optional<train::Prediction>& predicted,
                   const train::Console& console) {
  if (config.parallel.strategy != config::kAuto || config.parallel.given) {
    return train::settle_on_all_ranks(world, config, [&](Config& mine, const RankMemory& memory) {
      return train::settle_grid(mine, world.size(), memory);
    });
  }
  const cluster::Cluster cluster = this_cluster(world, config.device, console);
  return train::settle_on_all_ranks(world, config, [&](Config& mine, const RankMemory& memory) {
    SearchSpec spec;
    spec.ranks = world.size();
    spec.memory = memory.bytes;
    spec.top = 1;
    spec.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    const SearchResult found = search(mine, cluster, spec);
    if (found.plans.empty()) {
      mine.parallel.strategy = "4d";
      return train::settle_grid(mine, world.size(), memory);  // says what is missing
    }
    const Predicted& best = found.plans.front();
    mine = apply(mine, best.candidate);
    predicted = train::Prediction{best.step, best.memory, {}};
    predicted->traces =
        Evaluation(mine, best.candidate).trace(best.candidate.placement, cluster).traces;
    return describe(found, world.size());
  });
}

}  // namespace fourfold::planner
