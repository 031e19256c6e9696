// Images of one process, as pictures of libtorch and as rows, and the parts of them that ranks
// have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "fourfold/nn/group_norm.hpp"

#include "tests/model/compare.hpp"
#include "tests/nn/pieces.hpp"

namespace fourfold::test {

/// samples × channels × height × width -> samples * height * width × channels.
inline Tensor rows_of(const Tensor& picture) {
  return picture.permute({0, 2, 3, 1}).reshape({-1, picture.size(1)});
}
inline Tensor picture_of(const Tensor& rows, std::int64_t height, std::int64_t width) {
  return rows.view({-1, height, width, rows.size(1)}).permute({0, 3, 1, 2});
}
/// out × taps × in -> out × in × height × width.
inline Tensor window_of(const Tensor& weight, const kernels::ConvShape& shape) {
  return weight.view({weight.size(0), shape.kernel_height, shape.kernel_width, weight.size(2)})
      .permute({0, 3, 1, 2});
}

/// The layout of rows whose channels lie over `axes`.
inline grid::Layout image_layout(const grid::Axes& axes) {
  return split_over({grid::Axis::kData, grid::Axis::kZ}, axes);
}

/// All grids of 8 ranks and some odd ones.
inline std::vector<grid::Sizes> image_grids() {
  using grid::Axis;
  std::vector<grid::Sizes> all =
      grid::factorisations(8, {Axis::kX, Axis::kY, Axis::kZ, Axis::kData});
  for (const grid::Sizes& sizes :
       {grid::Sizes{}, grid::Sizes{.x = 3, .y = 2}, grid::Sizes{.x = 6}, grid::Sizes{.y = 6},
        grid::Sizes{.x = 2, .y = 2, .z = 4}, grid::Sizes{.x = 3, .y = 2, .z = 2}}) {
    all.push_back(sizes);
  }
  return all;
}

inline std::string name_of_grid(const testing::TestParamInfo<grid::Sizes>& info) {
  const grid::Sizes& s = info.param;
  return concat("x", s.x, "y", s.y, "z", s.z, "data", s.data);
}

}  // namespace fourfold::test
