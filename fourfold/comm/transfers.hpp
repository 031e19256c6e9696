// Operations that only move data between pairs of ranks: send, recv, gather, and the barrier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

OperationPtr make_send(const schedule::Collective& collective, const void* in, const Port& port);
OperationPtr make_receive(const schedule::Collective& collective, void* out, const Port& port);

/// Chunk i of the tensor comes from member i to the root. `in` is this rank's chunk; at the root it
/// lies in its place in `out` already.
OperationPtr make_gather(const schedule::Collective& collective, const void* in, void* out,
                         const Port& port);

/// Dissemination: in round k every rank tells the one 2^k after it, and hears from the one 2^k
/// before it, that all behind them have come.
OperationPtr make_barrier(const Port& port);

}  // namespace fourfold::comm
