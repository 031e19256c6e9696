// SPDX-License-Identifier: Apache-2.0
#include "matrix/traffic.hpp"

#include "fourfold/base/check.hpp"

namespace matrix {

using schedule::DType;
using schedule::Op;
using schedule::Traffic;

namespace {

/// Adds up the traffic of operations.
class Sum {
 public:
  Sum(const grid::Grid& grid, schedule::Reach reach) : grid_(grid), reach_(reach) {}

  /// An operation over `axes` on a tensor of which each member has `part` elements.
  Sum& add(Op op, const grid::Axes& axes, std::int64_t part, DType dtype) {
    const int size = grid_.size(axes);
    // All chunks have the same size, so every member sends the same.
    traffic_ +=
        schedule::traffic_of({.op = op, .dtype = dtype, .count = part * size}, size, 0, reach_);
    return *this;
  }
  Traffic traffic() const { return traffic_; }

 private:
  const grid::Grid& grid_;
  schedule::Reach reach_;
  Traffic traffic_;
};

}  // namespace

Sent product_traffic(Part result, Axis direction, const Extent& extent, const grid::Grid& grid,
                     DType dtype, schedule::Reach reach) {
  const auto [m, k, n] = extent;
  const std::int64_t ranks = grid.size({Axis::kX, Axis::kY, Axis::kZ});
  const auto in = [&](Sum& sum, Op op) { sum.add(op, across(direction), m * k / ranks, dtype); };
  const auto weight = [&](Sum& sum, Op op) { sum.add(op, Axis::kZ, k * n / ranks, dtype); };
  const auto out = [&](Sum& sum, Op op) { sum.add(op, direction, m * n / ranks, dtype); };
  const auto both = [](Sum& sum, const auto& part) {
    part(sum, Op::kAllGather);
    part(sum, Op::kReduceScatter);
  };
  Sum forward(grid, reach);
  Sum backward(grid, reach);
  in(forward, result == Part::kIn ? Op::kReduceScatter : Op::kAllGather);
  weight(forward, result == Part::kWeight ? Op::kReduceScatter : Op::kAllGather);
  out(forward, result == Part::kOut ? Op::kReduceScatter : Op::kAllGather);
  // The gradient of the result is gathered once. Each operand is gathered, and its gradient summed.
  result == Part::kIn ? in(backward, Op::kAllGather) : both(backward, in);
  result == Part::kWeight ? weight(backward, Op::kAllGather) : both(backward, weight);
  result == Part::kOut ? out(backward, Op::kAllGather) : both(backward, out);
  return {forward.traffic(), backward.traffic()};
}

Sent vector_traffic(Elementwise op, Axis axis, std::int64_t columns, const grid::Grid& grid,
                    DType dtype, schedule::Reach reach) {
  const grid::Axes axes = {across(axis), Axis::kZ};
  const std::int64_t part = columns / grid.size({Axis::kX, Axis::kY, Axis::kZ});
  const DType sums = dtype == DType::kBF16 ? DType::kF32 : dtype;
  Sum forward(grid, reach);
  forward.add(Op::kAllGather, axes, part, dtype);
  Sum backward(grid, reach);
  if (op == Elementwise::kMultiply) backward.add(Op::kAllGather, axes, part, dtype);
  backward.add(Op::kReduceScatter, axes, part, sums);
  return {forward.traffic(), backward.traffic()};
}

}  // namespace matrix
