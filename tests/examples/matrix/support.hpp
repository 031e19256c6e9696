// Whole matrices, and how far ranks are from them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "fourfold/kernels/random.hpp"

#include "matrix/sharded.hpp"
#include "tests/support/ranks.hpp"

namespace fourfold::test {

using at::Tensor;

/// A whole tensor of normal numbers of float64: always the same for a name.
inline Tensor whole(const grid::Shape& shape, const std::string& name) {
  Tensor all = at::empty(shape, at::kDouble);
  grid::Block block;
  for (const std::int64_t size : shape) block.ranges.push_back({0, size});
  kernels::fill_normal(all, shape, block, kernels::key_of(5, name), 1);
  return all;
}

inline Tensor leaf(const Tensor& values) {
  return values.detach().clone().set_requires_grad(true);
}

/// The largest error of a rank, relative to the largest value of the whole tensor, and where.
struct Worst {
  double error = 0;
  std::string where;

  void see(const Tensor& found, const Tensor& expected, const std::string& place) {
    if (!found.defined() || found.sizes() != expected.sizes()) return note(INFINITY, place);
    const double largest = expected.detach().abs().max().item<double>();
    note(found.detach().sub(expected.detach()).abs().max().item<double>() / largest, place);
  }

 private:
  void note(double value, const std::string& place) {
    if (value <= error) return;
    error = std::isnan(value) ? INFINITY : value;  // nothing is worse, so that it stays
    where = place;
  }
};

/// Cubes of 8 and 27 ranks, boxes, one rank alone, and planes of data that go their own ways.
inline std::vector<grid::Sizes> box_grids() {
  return {{.x = 2, .y = 2, .z = 2},   {.x = 3, .y = 3, .z = 3}, {.x = 2, .z = 3},
          {.y = 2, .z = 4},           {.x = 3, .y = 2},         {},
          {.x = 2, .z = 2, .data = 2}};
}

inline std::string name_of_grid(const grid::Sizes& s) {
  return concat("x", s.x, "y", s.y, "z", s.z, "data", s.data);
}

/// Everything that a product needs is a multiple of this, in both directions.
inline std::int64_t unit_of(const grid::Sizes& s) {
  return std::int64_t{s.x} * s.y * s.z;
}

}  // namespace fourfold::test
