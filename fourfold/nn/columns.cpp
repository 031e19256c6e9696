// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/columns.hpp"

#include <ATen/ops/empty.h>

#include "fourfold/base/check.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/kernels/column_pieces.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

Tensor merge_columns(const Mesh& mesh, const Tensor& stacked, std::int64_t pieces) {
  if (pieces == 1) return stacked;
  FOURFOLD_CHECK_EQ(stacked.size(0) % pieces, 0, "pieces of columns");
  Tensor rows = at::empty({stacked.size(0) / pieces, pieces * stacked.size(1)}, stacked.options());
  kernels::merge_pieces(stacked, rows);
  mesh.compute("merge", tensor::loop_over({rows, stacked}));
  return rows;
}

Tensor stack_columns(const Mesh& mesh, const Tensor& rows, std::int64_t pieces) {
  if (pieces == 1) return rows;
  FOURFOLD_CHECK_EQ(rows.size(1) % pieces, 0, "pieces of columns");
  Tensor stacked = at::empty({pieces * rows.size(0), rows.size(1) / pieces}, rows.options());
  kernels::stack_pieces(rows, stacked);
  mesh.compute("stack", tensor::loop_over({stacked, rows}));
  return stacked;
}

Tensor own_columns(const Mesh& mesh, const Tensor& rows, const grid::Axes& axes) {
  FOURFOLD_CHECK_EQ(rows.size(1) % mesh.size(axes), 0, "columns of a rank");
  const std::int64_t columns = rows.size(1) / mesh.size(axes);
  const Tensor own = rows.narrow(1, mesh.index(axes) * columns, columns);
  return tensor::contiguous(mesh, "own columns", own);
}

std::string cannot_split(const std::string& name, const char* what, std::int64_t size,
                         std::int64_t by, const std::string& axes) {
  if (size % by == 0) return {};
  return concat(name, ": ", size, " ", what, " cannot be split over ", axes, " = ", by,
                "; choose sizes that divide them");
}

}  // namespace fourfold::nn
