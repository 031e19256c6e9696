// The tables of a page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/report/run_data.hpp"

namespace fourfold::report {

/// Calls, bytes and time of each kind of operation in an average step of rank 0.
std::string communication_table(const RunData& run);

std::string memory_table(const RunData& run);

/// What was run, when, where and with which versions.
std::string facts_table(const RunData& run);

}  // namespace fourfold::report
