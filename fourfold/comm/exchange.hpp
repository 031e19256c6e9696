// Operations in which every rank sends to every other rank: sums of bf16 with one rounding, and
// small all_reduces in one step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

/// Each rank receives its chunk from all other ranks and sums it in float: first its own part, then
/// the parts of the members before it, nearest first. `out` may be this rank's chunk of `in`.
OperationPtr make_bf16_reduce_scatter(const schedule::Collective& collective, const void* in,
                                      void* out, const Port& port, ScratchPool& scratch);

/// A reduce_scatter whose chunks are then gathered at the root. `out` is only used at the root.
OperationPtr make_bf16_reduce(const schedule::Collective& collective, const void* in, void* out,
                              const Port& port, ScratchPool& scratch);

/// Every rank sends its data to every other rank. All ranks sum in the order of the group, so that
/// all have the same bits.
OperationPtr make_direct_all_reduce(const schedule::Collective& collective, const View& data,
                                    const Port& port, ScratchPool& scratch);

}  // namespace fourfold::comm
