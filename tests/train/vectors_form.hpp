// What the vectors of a block communicate by the 4-D algorithm, written down by hand: gathers
// before their use, and the sums of their gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/train/anatomy.hpp"
#include "tests/train/operations_of_weights.hpp"

namespace fourfold::test {

class VectorsForm {
 public:
  /// `sharded`: the rows of the hidden state are split over y. `by_heads`: attention is split by
  /// heads, not by samples.
  VectorsForm(const grid::Grid& grid, const tensor::Overlap& overlap, bool sharded, bool by_heads,
              const Type& type);

  /// The vectors of a block go together, by the axes.
  std::vector<Uses::Gather> gathers(const std::vector<Anatomy::Vector>& vectors) const;
  void add_sums(Operations& operations, const std::vector<Anatomy::Vector>& vectors) const;
  /// Elements of a rank's shard, with padding.
  std::int64_t own_size(const Anatomy::Vector& vector) const;

 private:
  /// The axes that a vector is gathered over, and its elements there.
  struct Placed {
    grid::Axes axes;
    std::int64_t elements;
  };
  Placed placed(const Anatomy::Vector& vector) const;

  const grid::Grid& grid_;
  std::int64_t gx_, gy_, gz_;
  bool in_background_;  // sums
  bool sharded_;
  bool by_heads_;
  Type type_;
};

}  // namespace fourfold::test
