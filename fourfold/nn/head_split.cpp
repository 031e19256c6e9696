// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/head_split.hpp"

#include "fourfold/base/text.hpp"

namespace fourfold::nn {

using grid::Axis;

namespace {

bool splits_heads(std::int64_t heads, int x, int y) {
  return heads % (std::int64_t{x} * y) == 0;
}

}  // namespace

std::string attention_misfit(ProductKind product, std::int64_t heads, const grid::Sizes& g,
                             std::int64_t samples) {
  if (product == ProductKind::kSumma) {
    if (heads % g.x == 0) return {};
    return concat(heads, " heads cannot be split over x=", g.x);
  }
  const std::int64_t local = samples / (std::int64_t{g.data} * g.z);
  if (splits_heads(heads, g.x, g.y) || (heads % g.y == 0 && local % g.x == 0)) return {};
  return concat(heads, " heads cannot be split over x=", g.x, " times y=", g.y, ", nor ", local,
                " samples of a rank over x");
}

HeadSplit head_split(ProductKind product, std::int64_t heads, const grid::Sizes& sizes) {
  if (product == ProductKind::kSumma) return HeadSplit::kSquare;
  return splits_heads(heads, sizes.x, sizes.y) ? HeadSplit::kHeads : HeadSplit::kSamples;
}

AttentionShape attention_shape(const Mesh& mesh, HeadSplit split, std::int64_t heads,
                               std::int64_t head_size, const Batch& batch) {
  AttentionShape shape;
  shape.samples = local_samples(mesh, batch);
  shape.first_sample = first_local_sample(mesh, batch);
  grid::Axes over_heads = {Axis::kY, Axis::kX};
  if (split != HeadSplit::kHeads) {
    const bool square = split == HeadSplit::kSquare;
    const Axis over_samples = square ? Axis::kY : Axis::kX;
    over_heads = square ? Axis::kX : Axis::kY;
    shape.samples /= mesh.size(over_samples);
    shape.first_sample += mesh.index(over_samples) * shape.samples;
  }
  shape.heads = heads / mesh.size(over_heads);
  shape.first_head = mesh.index(over_heads) * shape.heads;
  shape.context = batch.context;
  shape.head_size = head_size;
  shape.all_heads = heads;
  return shape;
}

double attention_flops(std::int64_t width, const Batch& batch) {
  const auto rows = static_cast<double>(batch.samples * batch.context);
  return 4 * static_cast<double>(width) * static_cast<double>(batch.context) * rows;
}

}  // namespace fourfold::nn
