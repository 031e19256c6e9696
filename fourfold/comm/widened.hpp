// Sums of bf16 for algorithms that send partial sums from rank to rank: the partial sums are f32
// and are rounded once at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

/// Runs the same operation on a copy in f32 (`schedule::travels_in_f32`).
OperationPtr make_widened(const schedule::Collective& collective, const InOut& buffers,
                          const Port& port, ScratchPool& scratch);

}  // namespace fourfold::comm
