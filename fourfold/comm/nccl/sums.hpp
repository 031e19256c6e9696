// Sums of bf16 that are rounded once: ranks exchange their parts, and the owner of each chunk adds
// them in f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fourfold/comm/buffer.hpp"
#include "fourfold/comm/nccl/nccl.hpp"
#include "fourfold/schedule/collective.hpp"

namespace fourfold::comm::nccl {

/// Where an operation runs.
struct Route {
  Comm comm = nullptr;
  Stream stream = nullptr;
  int size = 1;
  int index = 0;
};

/// Calls functions of the library between the begin and the end of a group, so that they are one
/// launch.
using Grouped = std::function<void(const std::function<void()>&)>;

/// Gives the stream a sum of bf16, which may be an all_reduce, a reduce_scatter or a reduce. The
/// parts of a chunk are added in the order of the exchange of docs/communication.md.
void sum_rounded_once(const Api& api, const ScratchMemory& memory,
                      const schedule::Collective& collective, const Buffers& buffers,
                      const Route& route, const Grouped& grouped);

}  // namespace fourfold::comm::nccl
