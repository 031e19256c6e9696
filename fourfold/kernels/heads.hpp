// Where the heads of attention lie in the columns of a matrix.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fourfold::kernels {

/// Heads lie side by side in groups of `group`, and the groups lie `stride` columns apart. With
/// groups of one, `stride` is the distance between heads.
struct HeadColumns {
  std::int64_t first = 0;   ///< the first column of head 0
  std::int64_t stride = 0;  ///< from the beginning of a group to that of the next one
  std::int64_t group = 1;

  /// The first column of a head.
  std::int64_t begin(std::int64_t head, std::int64_t head_size) const {
    return first + head / group * stride + head % group * head_size;
  }
};

}  // namespace fourfold::kernels
