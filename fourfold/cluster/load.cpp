// SPDX-License-Identifier: Apache-2.0
#include "fourfold/cluster/load.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/cluster/keys.hpp"
#include "fourfold/config/suggest.hpp"
#include "fourfold/config/toml.hpp"

namespace fourfold::cluster {

namespace {

namespace fs = std::filesystem;

/// The folder with the clusters that come with the program: in the installed tree, or in the
/// sources of a build tree.
fs::path clusters_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = program.parent_path() / FOURFOLD_CLUSTERS_FROM_PROGRAM;
  return !error && fs::is_directory(installed, error) ? installed : fs::path(FOURFOLD_CLUSTERS);
}

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".toml");
}

std::string path_of(const std::string& name) {
  if (is_path(name)) return name;
  const std::vector<std::string> known = known_clusters();
  if (std::find(known.begin(), known.end(), name) != known.end()) {
    return (clusters_folder() / (name + ".toml")).string();
  }
  const auto meant = config::nearest(name, known);
  constexpr std::size_t kLongest = 60;
  throw ConfigError(concat("unknown cluster ", config::quote(config::shorten(name, kLongest)), "; ",
                           meant ? concat("did you mean ", *meant, "? ") : "",
                           "known clusters: ", join(known, ", "),
                           "; or give the path of a file, such as ./my-cluster.toml"));
}

[[noreturn]] void refuse(const std::string& place, const std::string& message) {
  throw ConfigError(concat(place, ": ", message));
}

/// "did you mean NAME?", or what there is.
std::string hint(std::string_view name, const std::vector<std::string>& names,
                 const std::string& all) {
  const auto meant = config::nearest(name, names);
  return meant ? concat("did you mean ", *meant, "?") : all;
}

std::string shown_name(std::string_view name) {
  constexpr std::size_t kLongest = 60;
  return config::shorten(config::escape(name), kLongest);
}

void check_section(const config::Section& section, const std::string& place) {
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    if (names.empty() || names.back() != key.section) names.push_back(key.section);
  }
  const std::string all = concat("the sections are [", join(names, "], ["), "]");
  const bool known = std::find(names.begin(), names.end(), section.name) != names.end();
  if (section.value && known) {
    refuse(place,
           concat(section.name, " must be a section: [", section.name, "] with its keys below"));
  }
  if (section.value) {
    refuse(place,
           concat("key ", shown_name(section.name), " stands outside of any section; ", all));
  }
  if (!known) {
    refuse(place, concat("unknown section [", shown_name(section.name), "]; ",
                         hint(section.name, names, all)));
  }
}

const Key& key_of(const std::string& section, const std::string& name, const std::string& place) {
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    if (key.section != section) continue;
    if (key.name == name) return key;
    names.push_back(key.name);
  }
  refuse(place, concat("unknown key ", section, ".", shown_name(name), "; ",
                       hint(name, names, concat("[", section, "] has ", join(names, ", ")))));
}

/// What one key cannot see.
void check_whole(const Cluster& cluster, const std::string& file) {
  for (const MeasuredGroup& group : cluster.network.measured) {
    if (group.shape.per_host > cluster.gpus_per_host) {
      refuse(file,
             concat("network.measured has a group with ", group.shape.per_host,
                    " members on a host, but cluster.gpus_per_host is ", cluster.gpus_per_host));
    }
  }
}

}  // namespace

std::vector<std::string> known_clusters() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(clusters_folder(), error)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Cluster load(const std::string& name_or_path) {
  const std::string path = path_of(name_or_path);
  return parse(config::read_toml(path, "description of a cluster"), path);
}

Cluster parse(const std::string& toml, const std::string& path) {
  const std::string file = config::escape(path);
  Cluster cluster;
  std::set<std::string> given;
  for (const config::Section& section : config::parse_toml(toml, file)) {
    check_section(section, concat(file, ":", section.line));
    for (const config::Item& item : section.items) {
      const std::string place = concat(file, ":", item.line);
      const Key& key = key_of(section.name, item.name, place);
      if (const config::Refusal allowed = key.assign(cluster, item.value)) {
        refuse(place,
               concat(key.full_name(), " = ", config::shown(item.value), " must be ", *allowed));
      }
      given.insert(key.full_name());
    }
  }
  for (const Key& key : keys()) {
    if (!key.required || given.contains(key.full_name())) continue;
    refuse(file, concat(key.full_name(), " is missing; it must be ", key.allowed));
  }
  check_whole(cluster, file);
  return cluster;
}

}  // namespace fourfold::cluster
