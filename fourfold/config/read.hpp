// Reads the configuration of a run: first the file, then the overrides of the command line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/config/config.hpp"

namespace fourfold::config {

/// Where a configuration comes from.
struct Source {
  std::string path;  ///< a TOML file
  /// "section.key=value" of each --set, applied in order. The value is written as in TOML. Any
  /// other text is a string, so that quotes may be left out.
  std::vector<std::string> overrides{};
  std::string grid{};       ///< "x=2,y=2" of --grid: replaces all sizes; empty: not given
  bool needs_data = true;   ///< whether the data must be named; false for a dry run
  std::string init_from{};  ///< of --init-from: replaces train.init_from; empty: not given
};

/// Returns the whole configuration, checked and resolved. Relative paths in a file are relative to
/// the folder of the file, and paths of the command line to the working directory. Throws
/// ConfigError: one line that names the place, the key, its value and what would be allowed.
Config read(const Source& source);

}  // namespace fourfold::config
