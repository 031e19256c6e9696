// The state of a training as rectangles of global tensors: what a rank writes of it, and what
// another rank of any grid reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/formats/safetensors.hpp"
#include "fourfold/grid/block.hpp"
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

/// A tensor of a file, by its name there.
struct EntryName {
  std::string name;
  grid::Block block;
};
/// Throws ConfigError that names `path` unless it is such a name, and has the entry's shape.
EntryName parse_entry(const formats::TensorEntry& entry, const std::string& path);

formats::Dtype dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(formats::Dtype dtype, const std::string& path);

}  // namespace fourfold::checkpoint
