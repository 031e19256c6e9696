// The memory of this host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/base/units.hpp"

namespace fourfold {

/// The memory that this process may use.
struct HostMemory {
  Bytes total;      ///< of the machine, or the limit of the process's control group
  Bytes available;  ///< can be used now without swapping; caches of files count as free
};

/// Reads /proc/meminfo and the limits of the control groups (versions 1 and 2) of the process. A
/// value that cannot be read sets no limit; if none can be read, both are the largest number.
/// `root` is the folder that contains proc and sys.
HostMemory host_memory(const std::string& root = "");

}  // namespace fourfold
