// A small all_reduce by recursive doubling (`schedule::doubling_place`).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

/// In place. Two ranks that exchange their sums both add the lower one's to the higher one's in the
/// same order, so that all have the same bits in the end.
OperationPtr make_doubling_all_reduce(const schedule::Collective& collective, const View& data,
                                      const Port& port, ScratchPool& scratch);

}  // namespace fourfold::comm
