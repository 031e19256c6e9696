// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/check.hpp"
#include "fourfold/tensor/gpus.hpp"
#include "fourfold/tensor/memory_tally.hpp"

namespace fourfold::tensor {

Gpus find_gpus() {
  return {.backend = "", .missing = "this program was built for the processor alone", .list = {}};
}

c10::Device use_gpu(comm::World& /*world*/, const GpuUse& /*use*/) {
  throw InvariantError("a GPU is used in a program without one");
}

void count_gpu_memory_as(const void* /*data*/, MemoryClass /*kind*/) {}

}  // namespace fourfold::tensor
