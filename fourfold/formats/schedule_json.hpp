// Schedules as JSON: a list with one object for each step.
//
//     {"compute": "linear dW", "layer": "h.3.mlp.c_fc", "phase": "backward", "work": "product",
//      "dtype": "bf16", "extent": [4096, 512, 2048], "flops": 8589934592, "bytes": 3145728}
//     {"issue": "all_gather", "dtype": "bf16", "count": 4096, "priority": "background",
//      "axes": ["z"], "group_size": 2, "index": 1, "lane": 3, "reach": "host"}
//     {"wait": 0}
//
// What does not apply is left out: the extent of work that is no product, the layer of none, the
// "reduce" of an operation without a sum and the "root" of one without a root. Operations are
// numbered in the order of the list; a wait below 0 is for the step before (schedule::Wait).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "fourfold/schedule/schedule.hpp"

namespace fourfold::formats {

/// The text of the list, with one step on each line.
std::string schedule_json(const schedule::Schedule& schedule);

/// The inverse. `text` is such a list, or an object with such a list as its member "schedule".
/// Throws ConfigError, in one line that names the step and the member, for anything else. `path` is
/// for messages.
schedule::Schedule parse_schedule(std::string_view text, const std::filesystem::path& path);

}  // namespace fourfold::formats
