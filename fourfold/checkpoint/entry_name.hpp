// The names of tensors in the files of a checkpoint: "square/h.3.mlp.c_fc.weight/0:4,8:12".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/formats/safetensors.hpp"
#include "fourfold/grid/block.hpp"

namespace fourfold::checkpoint {

/// A part of a global tensor.
struct EntryName {
  std::string name;
  grid::Block block;
};

std::string to_text(const EntryName& entry);

/// Throws ConfigError that names `path` unless it is such a name, and has the entry's shape.
EntryName parse_entry(const formats::TensorEntry& entry, const std::string& path);

std::vector<std::int64_t> shape_of(const grid::Block& block);

}  // namespace fourfold::checkpoint
