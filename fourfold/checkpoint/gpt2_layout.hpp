// How a GPT's parameters lie in the files of Hugging Face's GPT-2: names, shapes, and the order of
// rows and columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fourfold/model/block.hpp"

namespace fourfold::checkpoint {

/// What a file has for one of our parameters. Ours are out × in, with c_attn's rows in the order
/// [head][q|k|v]; files have the weights of blocks in × out, and c_attn's columns in the order
/// [q|k|v][head].
struct FileTensor {
  std::string name;  ///< without the prefix "transformer."
  std::vector<std::int64_t> shape;
  bool transposed = false;
  /// For each of our rows the file's row, or column where it is transposed. Empty: the same.
  std::vector<std::int64_t> order;
};

/// Of the parameter `name` with that shape.
FileTensor file_tensor(const model::GptSpec& spec, const std::string& name,
                       const std::vector<std::int64_t>& shape);

/// The prefix of all names but that of the head, in files that we write. A head of its own is known
/// to other programs only beside names with the prefix; without one, names are those of the files
/// that GPT-2 came with.
std::string name_prefix(const model::GptSpec& spec);

}  // namespace fourfold::checkpoint
