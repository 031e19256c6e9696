// The state of a training as rectangles of global tensors: what a rank writes of it, and what
// another rank of any grid reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/checkpoint/entry_name.hpp"
#include "fourfold/optim/flat_group.hpp"

namespace fourfold::checkpoint {

/// A rectangle of a global tensor: the weights, a moment, or the mean of the weights.
struct StateBlock {
  std::string name;   ///< what it is and of which parameter: "square/h.3.mlp.c_fc.weight"
  grid::Block block;  ///< of the global tensor
  at::Tensor data;    ///< of the block's shape; a view of a rank's memory

  /// The name of the tensor in a file: "square/h.3.mlp.c_fc.weight/0:4,8:12".
  std::string entry() const;
};

/// The pieces of an optimizer's state, without padding.
std::vector<StateBlock> blocks_of(const std::vector<optim::StatePiece>& pieces);

formats::Dtype dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(formats::Dtype dtype, const std::string& path);

}  // namespace fourfold::checkpoint
