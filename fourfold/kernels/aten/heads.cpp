// Heads in the columns of a matrix, and their rotation.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

Tensor view_of_heads(const Tensor& matrix, const HeadColumns& columns, std::int64_t heads,
                     std::int64_t head_size, std::int64_t samples, std::int64_t rows,
                     std::int64_t sample_rows) {
  const std::int64_t group = std::min(columns.group, heads);
  FOURFOLD_CHECK_EQ(heads % group, 0, "heads lie in whole groups");
  const std::int64_t step = matrix.stride(0);
  return matrix.as_strided({samples, rows, heads / group, group, head_size},
                           {sample_rows * step, step, columns.stride, head_size, 1},
                           matrix.storage_offset() + columns.first);
}

namespace {

/// Rotates heads, samples × positions × groups × heads of a group × head_size.
void rotate(const Tensor& heads, const Tensor& cosines, const Tensor& sines) {
  const std::int64_t pairs = cosines.size(3);
  const Tensor first = wide(heads.narrow(4, 0, pairs));
  const Tensor second = wide(heads.narrow(4, pairs, pairs));
  const Tensor turned_first = first.mul(cosines).sub_(second.mul(sines));
  const Tensor turned_second = second.mul(cosines).add_(first.mul(sines));
  heads.narrow(4, 0, pairs).copy_(turned_first);
  heads.narrow(4, pairs, pairs).copy_(turned_second);
}

}  // namespace

void rotate_heads(const Tensor& matrix, const RotaryHeads& which, const Tensor& table,
                  Rotation rotation) {
  const NoGraph guard;
  const std::int64_t pairs = which.head_size / 2;
  const Tensor angles = table.narrow(0, which.first_position, which.positions)
                            .view({which.positions, 1, 1, which.head_size});
  const Tensor cosines = angles.narrow(3, 0, pairs);
  const Tensor sines = angles.narrow(3, pairs, pairs).mul(rotation == Rotation::kForward ? 1 : -1);
  const auto rotate_some = [&](const HeadColumns& columns, std::int64_t heads) {
    if (heads == 0) return;
    rotate(view_of_heads(matrix, columns, heads, which.head_size, matrix.size(0) / which.positions,
                         which.positions, which.positions),
           cosines, sines);
  };
  // The last group may have fewer heads.
  const std::int64_t rest = which.heads % which.columns.group;
  rotate_some(which.columns, which.heads - rest);
  HeadColumns last = which.columns;
  last.first = last.begin(which.heads - rest, which.head_size);
  rotate_some(last, rest);
}

}  // namespace fourfold::kernels::aten
