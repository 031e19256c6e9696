// Communication between GPUs by NCCL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>

#include "fourfold/comm/device.hpp"
#include "fourfold/comm/nccl/api.hpp"

namespace fourfold::comm::nccl {

/// How bf16 is summed.
enum class Bf16Sums {
  kRoundedOnce,  ///< ranks exchange their parts and add them in f32, as with other backends
  kOfLibrary     ///< NCCL's own sums, which round at every hop and need no scratch memory
};

/// Where scratch memory on the device comes from. It belongs to a stream: what is given back may be
/// taken again for the same stream while that still uses it.
struct ScratchMemory {
  std::function<void*(std::size_t bytes, Stream stream)> take;  ///< throws where there is none
  std::function<void(void* memory, Stream stream)> give_back;
};

struct Options {
  int device = 0;  ///< of this rank, as CUDA numbers them
  /// The stream on which the calling thread computes.
  std::function<Stream()> compute_stream = [] { return Stream(); };
  Bf16Sums bf16_sums = Bf16Sums::kRoundedOnce;
  /// For sums of bf16 that are rounded once. Empty: CUDA's own allocator for streams.
  ScratchMemory scratch = {};
  /// How many multiprocessors a communicator may use; 0: as many as NCCL likes. Kernels of all
  /// communicators that run at once must fit on the device together (`max_ctas_of`).
  int max_ctas = 0;
  /// How long the end waits for other ranks to end their communicators, too, before it gives up.
  Seconds farewell{30};
};

/// Options::max_ctas for a device with so many multiprocessors: kernels of three communicators fit
/// at once, with which no tested training hangs (docs/communication.md).
constexpr int max_ctas_of(int multiprocessors) {
  constexpr int kAtOnce = 3;
  constexpr int kMost = 32;  // more than NCCL takes on most machines, and allowed by all versions
  return std::clamp(multiprocessors / kAtOnce, 1, kMost);
}

/// For World::use_device. `api` must outlive the device: `cuda_api()`, or a stand-in.
std::unique_ptr<Device> open(const Api& api, const Options& options = {});

}  // namespace fourfold::comm::nccl
