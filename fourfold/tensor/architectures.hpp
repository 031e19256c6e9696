// The GPUs that kernels were compiled for. They are written as nvcc calls them, between spaces:
// "sm_80" is code that runs on this architecture and on later ones of its generation, and
// "compute_90" is code that the driver compiles for this architecture and all later ones. With an
// "a" at the end both are for this one alone, with an "f" for its generation alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fourfold::tensor {

/// Whether there is code for a GPU of the architecture sm_<major><minor>.
bool runs_on(const std::string& built_for, int major, int minor);

/// For the user: "sm_80 and sm_90, and newer ones".
std::string name_architectures(const std::string& built_for);

}  // namespace fourfold::tensor
