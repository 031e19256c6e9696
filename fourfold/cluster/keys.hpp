// The table of the keys of a cluster's file, which is used for reading, checking and writing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/config/rules.hpp"
#include "fourfold/config/value.hpp"

namespace fourfold::cluster {

struct Key {
  std::string section;
  std::string name;
  std::string meaning;  ///< for people, in one line
  std::string allowed;  ///< "a whole number of at least 1"
  bool required = true;
  std::function<config::Refusal(Cluster&, const config::Value&)> assign;
  /// Returns nothing when there is nothing to write.
  std::function<std::optional<config::Value>(const Cluster&)> value;

  /// "network.nics".
  std::string full_name() const { return section + "." + name; }
};

/// All keys, section by section, in the order in which they are written.
const std::vector<Key>& keys();

/// The keys as a table in Markdown, for the documentation.
std::string key_table_markdown();

}  // namespace fourfold::cluster
