// Finds the sources of the pieces of a shard when a tensor changes its layout or its grid.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/grid/layout.hpp"

namespace fourfold::grid {

/// A tensor of one shape, distributed over one grid.
struct Distribution {
  Shape shape;
  Layout layout;
  Grid grid;

  bool operator==(const Distribution&) const = default;
};

/// A piece: `block` of the global tensor is on rank `source`.
struct Piece {
  int source = 0;
  Block block;

  bool operator==(const Piece&) const = default;
};

/// The pieces that together make up the block of `rank` under `to`, each element exactly once,
/// taken from the ranks of `from`. Where several ranks of `from` hold a piece, the source is `rank`
/// itself if it is one of them. Otherwise the source depends on `rank`, so that the readers of a
/// replicated piece are shared out among its holders. Empty when the block is empty. Throws
/// InvariantError when the shapes differ or one of the layouts is partial.
std::vector<Piece> intersect(const Distribution& from, const Distribution& to, int rank);

}  // namespace fourfold::grid
