// What each function of this folder sends, in closed form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/schedule/wire.hpp"

#include "matrix/product.hpp"
#include "matrix/vector.hpp"

namespace matrix {

namespace schedule = fourfold::schedule;

// The number of elements that a rank sends, with P = x·y·z, for direction x (swap x and y for the
// other):
//   I = (y-1)·M·K/P    in, gathered or summed over y
//   W = (z-1)·K·N/P    weight, over z
//   O = (x-1)·M·N/P    out, over x
//   V = (x·z-1)·N/P    a vector on y, over x and z (on x: y·z-1)
//
//             forward    backward          one gradient only
//   A·B       I + W + O  2I + 2W + O       I + W + O
//   A·Bᵀ      I + W + O  I + 2W + 2O       I + W + O
//   Aᵀ·B      I + W + O  2I + W + 2O       I + W + O
//   add       V          V                 0 for A, V for v
//   multiply  V          2V                V
//
// The number of messages is the group's size less one for each operation, times the number of
// segments of a rank's part (schedule::segments_of). A part of at most 4 MiB is one segment.

/// What one rank sends. All ranks send the same. The backward pass computes both gradients.
struct Sent {
  schedule::Traffic forward;
  schedule::Traffic backward;

  bool operator==(const Sent&) const = default;
};

/// The sizes of the three matrices M×K, K×N and M×N, whichever of them is the result.
struct Extent {
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;
};

Sent product_traffic(Part result, Axis direction, const Extent& extent, const grid::Grid& grid,
                     schedule::DType dtype, schedule::Reach reach = schedule::Reach::kHost);

Sent vector_traffic(Elementwise op, Axis axis, std::int64_t columns, const grid::Grid& grid,
                    schedule::DType dtype, schedule::Reach reach = schedule::Reach::kHost);

}  // namespace matrix
