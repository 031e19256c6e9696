// Where the elements of a parameter are in files of other programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/grid/block.hpp"

namespace fourfold::model {

/// A tensor of a file.
struct FilePiece {
  std::string name;                           ///< the name in the files that we write
  std::vector<std::string> other_names = {};  ///< other names that are accepted
  std::vector<std::int64_t> shape = {};
  bool transposed = false;  ///< its columns are our rows
  bool more_rows = false;   ///< a file may have more rows; the first ones are used
  /// Weights of a convolution: out × in × the dimensions of the window, and ours are out × taps ×
  /// in.
  bool window_last = false;
  /// Only these channels of the tensor are ours, which other parameters complete: of a vector its
  /// elements, of a convolution its inputs.
  std::optional<grid::Range> channels = {};

  /// The number of our rows that it holds.
  std::int64_t rows() const {
    if (channels && shape.size() == 1) return channels->size();
    return transposed ? shape.back() : shape.front();
  }
  /// Where these begin among its own rows.
  std::int64_t first_row() const { return channels && shape.size() == 1 ? channels->begin : 0; }
};

/// One of our parameters as the tensors of a file.
struct FileTensor {
  std::vector<FilePiece> pieces;
  /// For each of our rows its place among the rows of all pieces, one piece after the other. Empty
  /// means the same order.
  std::vector<std::int64_t> order = {};
};

}  // namespace fourfold::model
