// The segmented ring: reduce_scatter, all_gather and all_reduce.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

/// `data` in place; its chunks are those of `schedule::chunk_of`.
OperationPtr make_ring_all_reduce(const schedule::Collective& collective, const View& data,
                                  const Port& port, ScratchPool& scratch);

/// `in` is this rank's chunk, or lies in its place in `out` already.
OperationPtr make_ring_all_gather(const schedule::Collective& collective, const void* in, void* out,
                                  const Port& port);

/// `out` is this rank's chunk; it may be that chunk of `in`.
OperationPtr make_ring_reduce_scatter(const schedule::Collective& collective, const void* in,
                                      void* out, const Port& port, ScratchPool& scratch);

}  // namespace fourfold::comm
