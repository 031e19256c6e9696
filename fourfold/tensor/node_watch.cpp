// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/node_watch.hpp"

namespace fourfold::tensor {

void show_rows(const Tensor& tensor, std::int64_t first_row, std::int64_t rows_per_sample) {
  if (!NodeWatch::any()) return;
  const auto show = [first_row, rows_per_sample](const Tensor& rows) {
    NodeWatch::tell([&](NodeWatch& watch) { watch.rows(rows, first_row, rows_per_sample); });
  };
  show(tensor.detach());
  if (tensor.requires_grad()) {
    tensor.register_hook([show](const Tensor& gradient) {
      if (gradient.defined()) show(gradient);
    });
  }
}

}  // namespace fourfold::tensor
