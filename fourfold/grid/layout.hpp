// How a global tensor is distributed over the grid.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "fourfold/grid/axis.hpp"
#include "fourfold/grid/block.hpp"
#include "fourfold/grid/grid.hpp"

namespace fourfold::grid {

using Shape = std::vector<std::int64_t>;

/// For each dimension of a global tensor the axes that split it, coarse first. The tensor is
/// replicated along axes that split no dimension. Ranks along `partial` axes hold summands: the
/// true value is the sum over them.
///
/// Every shard of a tensor has the same shape, so that collectives move equal pieces. Sizes that do
/// not divide are padded *nested*: n elements over (y, z) are first cut into blocks of ceil(n/Gy),
/// then each block into pieces of ceil(block/Gz). So the y blocks are the same whether or not z
/// splits them further. The elements beyond a block's end are padding, which is kept at zero.
class Layout {
 public:
  Layout() = default;
  /// Throws InvariantError when an axis is named twice.
  explicit Layout(std::vector<Axes> dims, Axes partial = {});

  std::size_t rank() const { return dims_.size(); }  ///< number of dimensions
  const Axes& dim(std::size_t d) const { return dims_[d]; }
  const Axes& partial() const { return partial_; }
  bool splits(Axis axis) const;

  /// The shape of every rank's shard, padding included.
  Shape shard_shape(const Shape& global, const Grid& grid) const;

  /// The part of the global tensor that `coord` holds, without padding. It may be empty. It is at
  /// the beginning of the shard.
  Block block(const Shape& global, const Grid& grid, const Coord& coord) const;

  /// The ranks that hold the same block as `coord`, including itself, in rank order.
  std::vector<int> replicas(const Grid& grid, const Coord& coord) const;

  bool operator==(const Layout&) const = default;

 private:
  std::vector<Axes> dims_;
  Axes partial_;
};

/// "[data+z+y, x]", followed by " partial(z)" where there are summands.
std::string to_string(const Layout& layout);
std::ostream& operator<<(std::ostream& out, const Layout& layout);

/// The indices of a dimension of n elements, split over `axes`, that the block at `coord` holds.
Range range_along(std::int64_t n, const Axes& axes, const Grid& grid, const Coord& coord);

/// The padded size of every shard of a dimension of n elements split over `axes`.
std::int64_t shard_size(std::int64_t n, const Axes& axes, const Grid& grid);

}  // namespace fourfold::grid
