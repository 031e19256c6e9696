// SPDX-License-Identifier: Apache-2.0
#include "tests/train/operations.hpp"

#include <algorithm>

#include "fourfold/tensor/dtype.hpp"

namespace fourfold::test {

Type::Type(at::ScalarType of) : type(tensor::dtype_of(of)) {}

void Operations::add(schedule::Op op, const grid::Axes& axes, const Payload& payload, int root) {
  add(op, grid_->group(axes, rank_), payload, root);
}

void Operations::add_part(schedule::Op op, const grid::Axes& axes, int ranks,
                          const Payload& payload) {
  grid::Group group = grid_->part(axes, ranks, rank_);
  // The group is named by the axes along which its members differ.
  std::vector<grid::Axis> along;
  for (const grid::Axis axis : axes) {
    const auto differs = [&](int member) {
      return grid_->coord_of(member)[axis] != grid_->coord_of(rank_)[axis];
    };
    if (std::ranges::any_of(group.members, differs)) along.push_back(axis);
  }
  group.axes = grid::Axes(std::move(along));
  add(op, group, payload, 0);
}

void Operations::add(schedule::Op op, const grid::Group& group, const Payload& payload, int root) {
  const int size = static_cast<int>(group.members.size());
  if (size == 1) return;
  const schedule::Collective one{.op = op,
                                 .dtype = payload.type,
                                 .priority = payload.priority,
                                 .count = payload.count,
                                 .root = root};
  const schedule::Traffic traffic = schedule::traffic_of(one, size, group.index);
  Calls& calls = all_[{op, grid::to_string(group.axes)}];
  calls.calls += 1;
  calls.payload += one.payload().value();
  calls.bytes += traffic.bytes.value();
  calls.messages += traffic.messages;
}

}  // namespace fourfold::test
