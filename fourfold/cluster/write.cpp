// SPDX-License-Identifier: Apache-2.0
#include "fourfold/cluster/write.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/cluster/keys.hpp"
#include "fourfold/config/toml.hpp"

namespace fourfold::cluster {

namespace {

/// Tables have a row in each line.
std::string text_of(const config::Value& value) {
  const auto* rows = std::get_if<std::vector<config::Value>>(&value.held);
  const bool table = rows != nullptr && !rows->empty() &&
                     std::holds_alternative<std::vector<config::Value>>(rows->front().held);
  if (!table) return config::to_toml(value);
  std::string text = "[\n";
  for (const config::Value& row : *rows) text += concat("  ", config::to_toml(row), ",\n");
  return text + "]";
}

}  // namespace

std::string to_toml(const Cluster& cluster) {
  std::string text;
  std::string section;
  for (const Key& key : keys()) {
    if (key.section != section) {
      if (!text.empty()) text += '\n';
      text += concat("[", key.section, "]\n");
      section = key.section;
    }
    if (const auto value = key.value(cluster))
      text += concat(key.name, " = ", text_of(*value), "\n");
  }
  return text;
}

void write(const Cluster& cluster, const std::string& path) {
  for (const Key& key : keys()) {
    const auto value = key.value(cluster);
    Cluster ignored;
    if (!value) continue;
    if (const config::Refusal allowed = key.assign(ignored, *value)) {
      throw ConfigError(concat("a cluster with ", key.full_name(), " = ", config::shown(*value),
                               " cannot be written; it must be ", *allowed));
    }
  }
  const std::string text = to_toml(cluster);
  if (text.size() > config::kLargestToml) {
    throw ConfigError(concat("the description of cluster ", cluster.name, " is larger than ",
                             config::kLargestToml, " bytes; leave out some measured groups"));
  }
  write_text(path, text);
}

}  // namespace fourfold::cluster
