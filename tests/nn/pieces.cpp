// SPDX-License-Identifier: Apache-2.0
#include "tests/nn/pieces.hpp"

#include <ATen/ops/full.h>

#include "tests/model/compare.hpp"

namespace fourfold::test {

Tensor normal(const grid::Shape& shape, const std::string& name, double deviation) {
  Tensor whole = at::empty(shape, at::kDouble);
  grid::Block block;
  for (const std::int64_t size : shape) block.ranges.push_back({0, size});
  kernels::fill_normal(whole, shape, block, kernels::key_of(5, name), deviation);
  return whole;
}

Tensor part_of(const tensor::Mesh& mesh, const Tensor& whole, const grid::Layout& layout,
               double padding) {
  const grid::Shape shape = whole.sizes().vec();
  const grid::Block block = layout.block(shape, mesh.grid(), mesh.coord());
  Tensor shard = at::full(layout.shard_shape(shape, mesh.grid()), padding, whole.options());
  real_part(shard, block).copy_(block_of(whole, block));
  return shard;
}

Tensor leaf_of(const tensor::Mesh& mesh, const Tensor& whole, const grid::Layout& layout) {
  return part_of(mesh, whole, layout).set_requires_grad(true);
}

}  // namespace fourfold::test
