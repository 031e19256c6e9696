// Several tensors in one operation: packed into one buffer, moved together, and unpacked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

/// `collective.count` is the sum over `list`, whose tensors have its dtype. Each chunk of the
/// packed tensor holds that chunk of every tensor of the list, one after the other.
OperationPtr make_packed(const schedule::Collective& collective, Buffers list, const Port& port,
                         ScratchPool& scratch);

}  // namespace fourfold::comm
