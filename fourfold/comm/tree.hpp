// Rooted operations along a tree or chain (`schedule::tree_place`): broadcast and reduce.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

OperationPtr make_broadcast(const schedule::Collective& collective, void* data, const Port& port);

/// Every rank adds its own part first, then the parts of its children in order. `out` is only used
/// at the root, where it may be `in`.
OperationPtr make_tree_reduce(const schedule::Collective& collective, const void* in, void* out,
                              const Port& port, ScratchPool& scratch);

}  // namespace fourfold::comm
