// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/shard.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/collectives.hpp"

namespace fourfold::tensor {

namespace {

using grid::Axes;
using grid::Axis;

void check_layout(const grid::Shape& shape, const grid::Layout& layout) {
  FOURFOLD_CHECK_EQ(shape.size(), layout.rank(), "dimensions of the tensor and of ", layout);
  FOURFOLD_CHECK(layout.partial().empty(), "a tensor is split, and its sums are not: ", layout);
}

void check_divides(const Mesh& mesh, const grid::Shape& shape, const grid::Layout& layout) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const Axes& axes = layout.dim(d);
    if (shape[d] % mesh.size(axes) == 0) continue;
    std::vector<std::string> sizes;
    for (const Axis axis : axes) {
      if (mesh.size(axis) > 1) sizes.push_back(concat(axis, "=", mesh.size(axis)));
    }
    throw ConfigError(concat("dimension ", d, " of a tensor of ", join(shape, "x"),
                             " cannot be split over ", join(sizes, " and "), ": ", shape[d],
                             " is no multiple of ", mesh.size(axes),
                             "; choose sizes that divide, or ask for tensor::Padding::kZeros"));
  }
}

/// Gathers the first dimension, of global size `size`, which is split over `axes`.
Tensor gather_first(const Mesh& mesh, Tensor part, std::int64_t size, const Axes& axes) {
  std::vector<std::int64_t> sizes = {size};  // the size of a block before each axis splits it
  for (const Axis axis : axes) sizes.push_back(grid::shard_size(sizes.back(), axis, mesh.grid()));
  for (std::size_t i = axes.size(); i-- > 0;) {  // small pieces are gathered into larger ones
    part = all_gather(mesh.join(axes[i]), part.contiguous()).wait().narrow(0, 0, sizes[i]);
  }
  return part;
}

}  // namespace

Tensor shard(const Mesh& mesh, const Tensor& whole, const grid::Layout& layout, Padding padding) {
  const grid::Shape shape = whole.sizes().vec();
  check_layout(shape, layout);
  if (padding == Padding::kRefused) check_divides(mesh, shape, layout);
  const Tensor part = at::zeros(layout.shard_shape(shape, mesh.grid()),
                                whole.options().device(mesh.device()).requires_grad(false));
  if (mesh.dry()) return part;
  const grid::Block block = layout.block(shape, mesh.grid(), mesh.coord());
  Tensor from = whole.detach();
  Tensor to = part;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const grid::Range& range = block.ranges[d];
    from = from.narrow(static_cast<std::int64_t>(d), range.begin, range.size());
    to = to.narrow(static_cast<std::int64_t>(d), 0, range.size());
  }
  to.copy_(from);
  return part;
}

Tensor unshard(const Mesh& mesh, const Tensor& part, const grid::Shape& shape,
               const grid::Layout& layout) {
  check_layout(shape, layout);
  const grid::Shape expected = layout.shard_shape(shape, mesh.grid());
  FOURFOLD_CHECK(part.sizes() == expected, "a rank's part of ", join(shape, "x"), " by ", layout,
                 " is ", join(expected, "x"), ", and not ", join(part.sizes().vec(), "x"));
  Tensor whole = part.detach();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    whole = gather_first(mesh, whole.movedim(dim, 0), shape[d], layout.dim(d)).movedim(0, dim);
  }
  whole = whole.contiguous();
  // With one rank nothing was gathered. The result must not share the memory of `part`.
  return whole.is_alias_of(part) ? whole.clone() : whole;
}

}  // namespace fourfold::tensor
