// SPDX-License-Identifier: Apache-2.0
#include "tests/train/operations.hpp"

#include "fourfold/tensor/dtype.hpp"

namespace fourfold::test {

Type::Type(at::ScalarType of) : type(tensor::dtype_of(of)) {}

void Operations::add(schedule::Op op, const grid::Axes& axes, const Payload& payload, int root) {
  const grid::Group group = grid_->group(axes, rank_);
  const int size = static_cast<int>(group.members.size());
  if (size == 1) return;
  const schedule::Collective one{
      .op = op, .dtype = payload.type, .count = payload.count, .root = root};
  const schedule::Traffic traffic = schedule::traffic_of(one, size, group.index);
  Calls& calls = all_[{op, grid::to_string(axes)}];
  calls.calls += 1;
  calls.payload += one.payload().value();
  calls.bytes += traffic.bytes.value();
  calls.messages += traffic.messages;
}

}  // namespace fourfold::test
