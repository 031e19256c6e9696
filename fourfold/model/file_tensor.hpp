// Where the elements of a parameter are in files of other programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fourfold::model {

/// A tensor of a file.
struct FilePiece {
  std::string name;                           ///< the name in the files that we write
  std::vector<std::string> other_names = {};  ///< other names that are accepted
  std::vector<std::int64_t> shape = {};
  bool transposed = false;  ///< its columns are our rows
  bool more_rows = false;   ///< a file may have more rows; the first ones are used

  /// The number of our rows that it holds.
  std::int64_t rows() const { return transposed ? shape.back() : shape.front(); }
};

/// One of our parameters as the tensors of a file.
struct FileTensor {
  std::vector<FilePiece> pieces;
  /// For each of our rows its place among the rows of all pieces, one piece after the other. Empty
  /// means the same order.
  std::vector<std::int64_t> order = {};
};

}  // namespace fourfold::model
