// SPDX-License-Identifier: Apache-2.0
#include "tests/train/vectors_form.hpp"

namespace fourfold::test {

using grid::Axes;
using grid::Axis;
using schedule::Op;
using Columns = Anatomy::Columns;

namespace {

std::int64_t up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

VectorsForm::VectorsForm(const grid::Grid& grid, const tensor::Overlap& overlap, bool sharded,
                         bool by_heads, const Type& type)
    : grid_(grid),
      gx_(grid.size(Axis::kX)),
      gy_(grid.size(Axis::kY)),
      gz_(grid.size(Axis::kZ)),
      in_background_(overlap.weight_gradients),
      sharded_(sharded),
      by_heads_(by_heads),
      type_(type) {}

VectorsForm::Placed VectorsForm::placed(const Anatomy::Vector& vector) const {
  const std::int64_t n = vector.size;
  if (vector.columns == Columns::kHidden) {
    return {{Axis::kY, Axis::kZ}, gy_ * gz_ * up(up(n / gx_, gy_), gz_)};
  }
  if (vector.columns == Columns::kAttention && by_heads_) {
    return {Axis::kZ, gz_ * up(n / (gx_ * gy_), gz_)};
  }
  return {{Axis::kX, Axis::kZ}, gx_ * gz_ * up(up(n / gy_, gx_), gz_)};
}

std::int64_t VectorsForm::own_size(const Anatomy::Vector& vector) const {
  const Placed place = placed(vector);
  return place.elements / grid_.size(place.axes);
}

std::vector<Uses::Gather> VectorsForm::gathers(const std::vector<Anatomy::Vector>& vectors) const {
  std::vector<Uses::Gather> all;
  for (const Axes& axes : {Axes{Axis::kY, Axis::kZ}, Axes{Axis::kX, Axis::kZ}, Axes(Axis::kZ)}) {
    std::int64_t elements = 0;
    for (const Anatomy::Vector& vector : vectors) {
      if (placed(vector).axes == axes) elements += placed(vector).elements;
    }
    if (elements > 0) all.push_back({axes, elements * type_});
  }
  return all;
}

void VectorsForm::add_sums(Operations& operations,
                           const std::vector<Anatomy::Vector>& vectors) const {
  const auto reduce = [&](const Axes& axes, std::int64_t elements) {
    if (elements == 0) return;
    const Payload payload = (elements * type_).in_background(in_background_);
    operations.add(Op::kReduceScatter, axes, payload);
  };
  if (sharded_) {
    for (const Uses::Gather& gather : gathers(vectors)) reduce(gather.axes, gather.payload.count);
    return;
  }
  // All are summed over z alone, each rank its own part, in one operation; except for the bias of
  // attention's inputs where its rows are split over x.
  std::int64_t own = 0;
  std::int64_t split_rows = 0;
  for (const Anatomy::Vector& vector : vectors) {
    if (vector.columns == Columns::kAttention && !by_heads_) {
      split_rows += placed(vector).elements;
    } else {
      own += own_size(vector);
    }
  }
  reduce(Axis::kZ, gz_ * own);
  reduce({Axis::kX, Axis::kZ}, split_rows);
}

}  // namespace fourfold::test
