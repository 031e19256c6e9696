// The folder that a run leaves behind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fourfold::train {

/// Makes the folder, which must not exist or be empty; with an empty `out` a new one in runs/,
/// named after the configuration and the time. Throws ConfigError when that cannot be. Returns its
/// path.
std::string make_run_folder(const std::string& out, const std::string& name);

}  // namespace fourfold::train
