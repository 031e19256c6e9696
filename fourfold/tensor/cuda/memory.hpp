// Counts the memory of tensors on GPUs by class.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fourfold::tensor {

/// From now on every tensor on a GPU is counted by the meter of the thread that allocates it. May
/// be called again.
void count_gpu_memory();

}  // namespace fourfold::tensor
