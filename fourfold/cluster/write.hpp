// Writes a cluster as a TOML file that reads back as the same cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/cluster/cluster.hpp"

namespace fourfold::cluster {

/// The file with all keys, except optional ones that have no value.
std::string to_toml(const Cluster& cluster);

/// Throws IoError when the file cannot be written, and ConfigError when it could not be read again.
void write(const Cluster& cluster, const std::string& path);

}  // namespace fourfold::cluster
