// Reads clusters from files. docs/cluster-files.md describes the format.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/cluster/cluster.hpp"

namespace fourfold::cluster {

/// The cluster of that name among those that come with the program ("perlmutter"), or that of a
/// file: anything that contains a slash or ends with ".toml" is a path. Throws ConfigError: one
/// line that names the file, the line, the key and what would be allowed.
Cluster load(const std::string& name_or_path);

/// The cluster that the text of a file describes; `path` is its name in messages. Throws like
/// `load`.
Cluster parse(const std::string& toml, const std::string& path);

/// The names of the clusters that come with the program, in alphabetical order.
std::vector<std::string> known_clusters();

}  // namespace fourfold::cluster
