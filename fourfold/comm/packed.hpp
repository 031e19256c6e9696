// Several tensors in one operation: packed into one buffer, moved together, and unpacked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/comm/operation.hpp"

namespace fourfold::comm {

/// `collective.count` is the sum over the tensors of `list`, which must have the dtype of the
/// collective. Chunk i of the packed tensor holds chunk i of every tensor of the list, one after
/// the other.
OperationPtr make_packed(const schedule::Collective& collective, Buffers list, const Port& port,
                         ScratchPool& scratch);

}  // namespace fourfold::comm
