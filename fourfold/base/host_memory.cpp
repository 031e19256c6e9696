// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

namespace fourfold {

namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// The number in a file of one number. Nothing for "max" and for files that cannot be read.
std::optional<std::int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/// The number after a name in a file of lines "name number".
std::optional<std::int64_t> number_of(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    std::int64_t number = 0;
    if (words >> first >> number && first == name) return number;
  }
  return std::nullopt;
}

/// The place and the names of the files of a version of control groups.
struct Version {
  std::string folder;
  const char* limit;
  const char* usage;
  const char* cache;  ///< in memory.stat: what is freed when it is needed
};

/// Applies the limits of the group at `path`, such as "/system.slice/job", and of the groups that
/// contain it. In a container the path may be one of the host system; then the container's own
/// group is at the root.
void apply(HostMemory& memory, const Version& version, std::string path) {
  while (true) {
    if (path == "/") path.clear();
    const std::string folder = version.folder + path + "/";
    if (const auto limit = number_in(folder + version.limit)) {
      const Bytes used(number_in(folder + version.usage).value_or(0));
      const Bytes cached(number_of(folder + "memory.stat", version.cache).value_or(0));
      const Bytes left = Bytes(*limit) - std::max(Bytes(), used - cached);
      memory.total = std::min(memory.total, Bytes(*limit));
      memory.available = std::min(memory.available, std::max(Bytes(), left));
    }
    if (path.empty()) return;
    path.resize(path.rfind('/'));
  }
}

}  // namespace

HostMemory host_memory(const std::string& root) {
  HostMemory memory{Bytes(kNoLimit), Bytes(kNoLimit)};
  constexpr std::int64_t kKib = 1024;
  const std::string meminfo = root + "/proc/meminfo";
  if (const auto total = number_of(meminfo, "MemTotal:")) memory.total = Bytes(*total * kKib);
  memory.available = memory.total;
  if (const auto free = number_of(meminfo, "MemAvailable:")) memory.available = Bytes(*free * kKib);
  const std::string groups = root + "/sys/fs/cgroup";
  const Version first = {groups + "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                         "total_inactive_file"};
  const Version second = {groups, "memory.max", "memory.current", "inactive_file"};
  // The lines are like "4:memory,cpu:/job" and, for version 2, "0::/job".
  std::ifstream own(root + "/proc/self/cgroup");
  for (std::string line; std::getline(own, line);) {
    const std::size_t begin = line.find(':');
    const std::size_t end = begin == std::string::npos ? begin : line.find(":/", begin + 1);
    if (end == std::string::npos && !line.starts_with("0::/")) continue;
    const std::string controllers = "," + line.substr(begin + 1, end - begin - 1) + ",";
    if (line.starts_with("0::/")) apply(memory, second, line.substr(3));
    if (controllers.find(",memory,") != std::string::npos)
      apply(memory, first, line.substr(end + 1));
  }
  return memory;
}

}  // namespace fourfold
