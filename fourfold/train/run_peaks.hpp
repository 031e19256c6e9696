// The memory that a run has needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/tensor/memory.hpp"
#include "fourfold/tensor/mesh.hpp"
#include "fourfold/train/metrics.hpp"

namespace fourfold::train {

/// Fills in each peak of memory, as it was on the rank that needed most. `metrics.construction` is
/// this rank's own before; `peaks` and `in_steps` are this rank's during the steps. Collective.
void gather_peaks(const tensor::Mesh& mesh, const tensor::MemoryUse& peaks, Bytes in_steps,
                  RunMetrics& metrics);

}  // namespace fourfold::train
