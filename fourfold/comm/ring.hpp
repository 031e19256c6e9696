// The segmented ring: reduce_scatter, all_gather and all_reduce.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

/// Reduces `data` in place. Its chunks are those of `schedule::chunk_of`.
OperationPtr make_ring_all_reduce(const schedule::Collective& collective, const View& data,
                                  const Port& port, ScratchPool& scratch);

/// `in` is this rank's chunk. It may already lie at this rank's place in `out`.
OperationPtr make_ring_all_gather(const schedule::Collective& collective, const void* in, void* out,
                                  const Port& port);

/// `out` is this rank's chunk of the sum. It may be the same memory as this rank's chunk of `in`.
OperationPtr make_ring_reduce_scatter(const schedule::Collective& collective, const void* in,
                                      void* out, const Port& port, ScratchPool& scratch);

}  // namespace fourfold::comm
