// The folder that a run writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fourfold::train {

/// Makes the folder, which must not exist or must be empty. If `out` is empty, a new folder is made
/// in runs/, named after the configuration and the time. Throws ConfigError when the folder cannot
/// be made. Returns its path.
std::string make_run_folder(const std::string& out, const std::string& name);

/// Why the folder of a run has no model: "runs/x has no model yet: ...". Empty when it has one, or
/// when it is not the folder of a run.
std::string why_no_model(const std::string& folder);

}  // namespace fourfold::train
