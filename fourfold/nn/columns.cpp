// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/columns.hpp"

#include "fourfold/base/text.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

Tensor merge_columns(const Mesh& mesh, const Tensor& stacked, std::int64_t pieces) {
  if (pieces == 1) return stacked;
  const std::int64_t rows = stacked.size(0) / pieces;
  const Tensor view = stacked.view({pieces, rows, stacked.size(1)}).permute({1, 0, 2});
  return tensor::contiguous(mesh, "merge", view).view({rows, -1});
}

Tensor stack_columns(const Mesh& mesh, const Tensor& rows, std::int64_t pieces) {
  if (pieces == 1) return rows;
  const Tensor view = rows.view({rows.size(0), pieces, -1}).permute({1, 0, 2});
  return tensor::contiguous(mesh, "stack", view).view({pieces * rows.size(0), -1});
}

Tensor own_columns(const Mesh& mesh, const Tensor& rows, const grid::Axes& axes) {
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
