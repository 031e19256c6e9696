// SPDX-License-Identifier: Apache-2.0
#include "fourfold/grid/transfer.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"

namespace fourfold::grid {

namespace {

/// A block of one dimension under `from`: the part of it that is wanted, and its place along the
/// axes.
struct Shared {
  Range range;
  Coord coord;
};

void add_coord(Coord& coord, const Axes& axes, const Coord& from) {
  for (Axis axis : axes) coord[axis] = from[axis];
}

/// The blocks of dimension `d` that intersect `wanted`.
std::vector<Shared> shared_blocks(const Distribution& from, std::size_t d, const Range& wanted) {
  std::vector<Shared> found;
  const Axes& axes = from.layout.dim(d);
  for (int member : from.grid.group(axes, 0).members) {
    const Coord coord = from.grid.coord_of(member);
    const Range shared = intersect(range_along(from.shape[d], axes, from.grid, coord), wanted);
    if (!shared.empty()) found.push_back({shared, coord});
  }
  return found;
}

int choose_source(const std::vector<int>& holders, int rank) {
  if (std::find(holders.begin(), holders.end(), rank) != holders.end()) return rank;
  return holders[static_cast<std::size_t>(rank) % holders.size()];
}

}  // namespace

std::vector<Piece> intersect(const Distribution& from, const Distribution& to, int rank) {
  FOURFOLD_CHECK(from.shape == to.shape, "the two tensors have different shapes");
  FOURFOLD_CHECK_EQ(from.layout.rank(), from.shape.size(), "dimensions of ", from.layout,
                    " and of the shape");
  FOURFOLD_CHECK(from.layout.partial().empty() && to.layout.partial().empty(),
                 "summands cannot be copied as values: ", from.layout, " to ", to.layout);
  const Block wanted = to.layout.block(to.shape, to.grid, to.grid.coord_of(rank));
  if (wanted.elements() == 0) return {};

  // The result is the Cartesian product of the shared parts along each dimension.
  struct Open {
    Block block;
    Coord coord;
  };
  std::vector<Open> open(1);
  for (std::size_t d = 0; d < from.shape.size(); ++d) {
    std::vector<Open> next;
    for (const Shared& shared : shared_blocks(from, d, wanted.ranges[d])) {
      for (Open piece : open) {
        piece.block.ranges.push_back(shared.range);
        add_coord(piece.coord, from.layout.dim(d), shared.coord);
        next.push_back(std::move(piece));
      }
    }
    open = std::move(next);
  }

  std::vector<Piece> pieces;
  for (Open& piece : open) {
    pieces.push_back({choose_source(from.layout.replicas(from.grid, piece.coord), rank),
                      std::move(piece.block)});
  }
  return pieces;
}

}  // namespace fourfold::grid
