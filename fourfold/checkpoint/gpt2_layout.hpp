// The layout of a GPT's parameters in the files of Hugging Face's GPT-2: names, shapes, and the
// order of rows and columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fourfold/model/block.hpp"

namespace fourfold::checkpoint {

/// The tensor of a file that corresponds to one of our parameters. Ours are out × in, and the rows
/// of c_attn are in the order [head][q|k|v]. In files the weights of blocks are in × out, and the
/// columns of c_attn are in the order [q|k|v][head].
struct FileTensor {
  std::string name;  ///< without the prefix "transformer."
  std::vector<std::int64_t> shape;
  bool transposed = false;
  /// For each of our rows the row of the file, or the column where the tensor is transposed. Empty
  /// means the same order.
  std::vector<std::int64_t> order;
};

/// The tensor for the parameter `name` with that shape.
FileTensor file_tensor(const model::GptSpec& spec, const std::string& name,
                       const std::vector<std::int64_t>& shape);

/// The prefix of all names except that of the head, in files that we write. Other programs
/// recognise an untied head only if the other names have the prefix. With a tied head there is no
/// prefix, and the names are those of GPT-2's original files.
std::string name_prefix(const model::GptSpec& spec);

}  // namespace fourfold::checkpoint
