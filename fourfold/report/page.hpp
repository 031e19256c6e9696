// A run as a page that needs nothing else: no network, no script.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/report/run_data.hpp"

namespace fourfold::report {

/// HTML. Its size has a bound, however many steps and ranks the run has.
std::string page(const RunData& run);

}  // namespace fourfold::report
