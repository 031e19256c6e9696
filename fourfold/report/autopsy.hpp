// What a job that died was doing, from the logs that its ranks have left.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/comm/flight_log.hpp"

namespace fourfold::report {

/// A rank that held others up, and why that can be told.
struct Culprit {
  int rank = 0;
  std::string line;  ///< for a person
};

struct Autopsy {
  std::vector<std::string> ranks;  ///< one line for each: its last step and what it did last
  /// Those that others waited for and that did not wait for another rank themselves; or a circle of
  /// ranks that waited for each other.
  std::vector<Culprit> culprits;
  std::string summary;  ///< one line
};

/// The logs may be incomplete: ranks without one are named.
Autopsy autopsy(std::vector<comm::FlightLog> logs);

}  // namespace fourfold::report
