// reduce_scatter and all_gather of little data over many ranks, in ceil(log2 p) rounds
// (`schedule::circulant_rounds`) with the bytes of a ring, for any number of ranks. After J. L.
// Träff, "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

/// `in` is this rank's chunk, and may lie in its place in `out`.
OperationPtr make_circulant_all_gather(const schedule::Collective& collective, const void* in,
                                       void* out, const Port& port, ScratchPool& scratch);

/// `out` is this rank's chunk; it may be that chunk of `in`.
OperationPtr make_circulant_reduce_scatter(const schedule::Collective& collective, const void* in,
                                           void* out, const Port& port, ScratchPool& scratch);

}  // namespace fourfold::comm
