// reduce_scatter and all_gather of little data over many ranks. They take ceil(log2 p) rounds
// (`schedule::circulant_rounds`), send as many bytes as a ring and work for any number of ranks.
// The algorithm is that of J. L. Träff, "Optimal, Non-pipelined Reduce-scatter and Allreduce
// Algorithms".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

/// `in` is this rank's chunk. It may already lie at this rank's place in `out`.
OperationPtr make_circulant_all_gather(const schedule::Collective& collective, const void* in,
                                       void* out, const Port& port, ScratchPool& scratch);

/// `out` is this rank's chunk of the sum. It may be the same memory as this rank's chunk of `in`.
OperationPtr make_circulant_reduce_scatter(const schedule::Collective& collective, const void* in,
                                           void* out, const Port& port, ScratchPool& scratch);

}  // namespace fourfold::comm
