// A run as a self-contained page, without network access or scripts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/report/run_data.hpp"

namespace fourfold::report {

/// Returns HTML. Its size is bounded, however many steps and ranks the run has.
std::string page(const RunData& run);

}  // namespace fourfold::report
