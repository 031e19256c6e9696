// The memory of this host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/base/units.hpp"

namespace fourfold {

/// As far as this process may use it.
struct HostMemory {
  Bytes total;      ///< of the machine, or the limit of the process's control group
  Bytes available;  ///< what of it can be taken now without swapping; caches of files count as free
};

/// From /proc/meminfo and the limits of the control groups (versions 1 and 2) that the process is
/// in. What cannot be read sets no limit: without any of it both are the largest number there is.
/// `root` is the folder that holds proc and sys.
HostMemory host_memory(const std::string& root = "");

}  // namespace fourfold
