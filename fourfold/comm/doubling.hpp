// A small all_reduce by recursive doubling (`schedule::doubling_place`).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

/// Works in place. Two ranks that exchange their sums both combine them in the same order, the
/// lower rank's sum first, so that all ranks end up with the same bits.
OperationPtr make_doubling_all_reduce(const schedule::Collective& collective, const View& data,
                                      const Port& port, ScratchPool& scratch);

}  // namespace fourfold::comm
