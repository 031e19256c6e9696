// The folder that a run leaves behind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fourfold::train {

/// Makes the folder, which must not exist or be empty; with an empty `out` a new one in runs/,
/// named after the configuration and the time. Throws ConfigError when that cannot be. Returns its
/// path.
std::string make_run_folder(const std::string& out, const std::string& name);

/// Why the folder of a run has no model: "runs/x has no model yet: ...". Empty when it has one, or
/// is not a run's.
std::string why_no_model(const std::string& folder);

}  // namespace fourfold::train
