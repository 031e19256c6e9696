// Operations that only move data between pairs of ranks: send, recv, gather, and the barrier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

OperationPtr make_send(const schedule::Collective& collective, const void* in, const Port& port);
OperationPtr make_receive(const schedule::Collective& collective, void* out, const Port& port);

/// The root receives chunk i of the tensor from member i. `in` is this rank's chunk. At the root it
/// already lies at its place in `out`.
OperationPtr make_gather(const schedule::Collective& collective, const void* in, void* out,
                         const Port& port);

/// A dissemination barrier. In round k every rank sends to the rank 2^k after it and receives from
/// the rank 2^k before it. A message says that its sender, and all ranks that the sender has heard
/// of, have reached the barrier.
OperationPtr make_barrier(const Port& port);

}  // namespace fourfold::comm
