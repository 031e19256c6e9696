// The GPUs of this host, as this program can use them. CMake lists one of two implementations:
// no_gpus.cpp in a program that was built for the processor alone, and cuda/gpus.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "fourfold/base/units.hpp"
#include "fourfold/comm/world.hpp"

namespace fourfold::tensor {

struct Gpu {
  std::string name;          ///< "NVIDIA A100-SXM4-80GB"
  std::string architecture;  ///< "sm_80"
  Bytes memory;
  std::string bus;         ///< its place in the host, which is the same in all processes
  std::vector<int> peers;  ///< the GPUs of the list whose memory it reads and writes directly
  std::string misfit;      ///< why this program cannot use it; empty if it can
};

/// What this process sees.
struct Gpus {
  std::string backend;  ///< "CUDA 13.2, NCCL 2.30.7, for sm_80 and sm_90"; empty: not built in
  std::string missing;  ///< why there is no GPU; empty if there is one
  std::vector<Gpu> list;
};
Gpus find_gpus();

struct GpuUse {
  int index = 0;                ///< in the list
  Bytes limit;                  ///< what tensors may take of its memory; 0: all of it
  bool exact_bf16_sums = true;  ///< in float with one rounding, not NCCL's own
};

/// Makes the calling thread, which is a rank of the world, compute on this GPU, and the world
/// communicate between its GPUs. May be called again with the same GPU.
c10::Device use_gpu(comm::World& world, const GpuUse& use);

}  // namespace fourfold::tensor
