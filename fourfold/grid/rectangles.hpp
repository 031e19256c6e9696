// Pieces of tensors whose elements follow each other in memory, as rectangles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/grid/layout.hpp"

namespace fourfold::grid {

/// The elements [flat.begin, flat.end) of a tensor in row-major order, as rectangles: in the order
/// of the elements, each element in one of them. A tensor of d dimensions needs 2d - 1 at most.
std::vector<Block> rectangles(const Range& flat, const Shape& shape);

/// The elements that both blocks have. They must have the same number of dimensions.
Block intersect(const Block& a, const Block& b);

/// The block moved by the beginning of another one: `inner` counts from there.
Block moved(Block inner, const Block& outer);
/// The block, counted from the beginning of `outer`.
Block relative(Block block, const Block& outer);

}  // namespace fourfold::grid
