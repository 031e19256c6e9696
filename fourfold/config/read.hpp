// Reads the configuration of a run: the file, then what the command line overrides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/config/config.hpp"

namespace fourfold::config {

/// Where a configuration comes from.
struct Source {
  std::string path;  ///< a TOML file
  /// "section.key=value" of each --set, applied in order. The value is one of TOML; any other text
  /// is a string, so that quotes may be left out.
  std::vector<std::string> overrides{};
  std::string grid{};       ///< "x=2,y=2" of --grid: replaces all sizes; empty: there is none
  bool needs_data = true;   ///< whether the data must be named; not for a dry run
  std::string init_from{};  ///< of --init-from: replaces train.init_from; empty: there is none
};

/// The whole configuration, checked and with everything resolved. Relative paths start at the
/// folder of the file that they stand in, those of the command line at the working directory.
/// Throws ConfigError: one line that names the place, the key, its value and what would be allowed.
Config read(const Source& source);

}  // namespace fourfold::config
