// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/calibration_cache.hpp"

#include <array>
#include <cctype>
#include <filesystem>
#include <vector>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/cluster/load.hpp"
#include "fourfold/cluster/write.hpp"
#include "fourfold/data/prepare.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/planner/hosts.hpp"

namespace fourfold::planner {

namespace {

/// The file of a machine: what its speed depends on is in its name. Throws ConfigError like
/// `ranks_per_host`.
std::string cache_file(const comm::World& world, const config::DeviceConfig& device) {
  std::string name =
      concat(world.host(0), "-", world.size(), "-ranks-", ranks_per_host(world), "-a-host");
  if (device.kind != config::DeviceKind::kCpu) name += concat("-", to_string(device.kind));
  if (device.gflops > 0) name += concat("-", device.gflops, "-gflops");
  if (device.gbytes_per_second > 0) name += concat("-", device.gbytes_per_second, "-gbytes");
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '-') letter = '_';
  }
  return concat(data::default_cache_folder(), "/clusters/", name, ".toml");
}

/// The same text on all ranks, from the first.
std::string shared(const comm::Communicator& everyone, std::string text) {
  std::array<std::int64_t, 1> length = {static_cast<std::int64_t>(text.size())};
  everyone.broadcast(comm::view(length), 0).wait();
  if (length[0] == 0) return {};
  std::vector<std::int64_t> letters(text.begin(), text.end());
  letters.resize(static_cast<std::size_t>(length[0]));
  everyone.broadcast(comm::view(letters), 0).wait();
  return {letters.begin(), letters.end()};
}

/// Empty if there is no such file, or none that this version can read.
std::string read_cached(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  try {
    return cluster::to_toml(cluster::load(file));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::optional<cluster::Cluster> cached_cluster(comm::World& world,
                                               const config::DeviceConfig& device) {
  if (!uneven_hosts(world).empty()) return std::nullopt;  // on all ranks alike
  const std::string file = cache_file(world, device);
  const comm::Communicator everyone =
      world.communicator(grid::Grid({.x = world.size()}).everyone(world.rank()));
  const std::string text = shared(everyone, world.rank() == 0 ? read_cached(file) : "");
  if (text.empty()) return std::nullopt;
  return cluster::parse(text, file);
}

std::string put_into_cache(const comm::World& world, const config::DeviceConfig& device,
                           const cluster::Cluster& cluster) {
  if (world.rank() != 0) return {};
  const std::string file = cache_file(world, device);
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), failed);
  if (failed) return {};
  try {
    cluster::write(cluster, file);
  } catch (const IoError&) {
    return {};
  }
  return file;
}

}  // namespace fourfold::planner
