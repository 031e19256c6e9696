// The process grid: ranks arranged along named axes, and the groups of ranks along some of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/grid/axis.hpp"

namespace fourfold::grid {

/// The size of the grid along each axis; 1 where none is given.
struct Sizes {
  int x = 1;
  int y = 1;
  int z = 1;
  int data = 1;
  int pipe = 1;

  bool operator==(const Sizes&) const = default;
};

/// A rank's position along each axis.
class Coord {
 public:
  constexpr Coord() = default;
  constexpr int operator[](Axis axis) const { return at_[index_of(axis)]; }
  constexpr int& operator[](Axis axis) { return at_[index_of(axis)]; }
  constexpr bool operator==(const Coord&) const = default;

 private:
  std::array<int, kAxisCount> at_{};
};

/// "x=0 y=1 z=0 data=0 pipe=0".
std::string to_string(const Coord& coord);
std::ostream& operator<<(std::ostream& out, const Coord& coord);

/// Ranks that differ only in `axes`, one of which is "this" rank: all of them, or a part of them.
/// Members are in the order of a tensor's blocks split over `axes`: the last axis runs fastest.
struct Group {
  Axes axes;
  std::vector<int> members;  ///< ranks of the world
  int index = 0;             ///< the index of this rank in members

  int size() const { return static_cast<int>(members.size()); }
  bool operator==(const Group&) const = default;
};

/// "y+x [0 4 8 12]".
std::string to_string(const Group& group);
std::ostream& operator<<(std::ostream& out, const Group& group);

/// The order in which ranks are placed along the axes, fastest first.
using Placement = std::array<Axis, kAxisCount>;
inline constexpr Placement kDefaultPlacement = kAllAxes;

/// Parses "x,y,z,data,pipe". Throws ConfigError unless each axis appears once.
Placement parse_placement(std::string_view text);
std::string to_string(const Placement& placement);

class Grid {
 public:
  /// A grid of one rank.
  Grid() : Grid(Sizes{}) {}

  /// Throws ConfigError when a size is below 1 or the number of ranks does not fit an int.
  explicit Grid(const Sizes& sizes, const Placement& placement = kDefaultPlacement);

  int ranks() const { return ranks_; }
  int size(Axis axis) const { return sizes_[index_of(axis)]; }
  /// The product of the sizes along `axes`.
  int size(const Axes& axes) const;
  const Placement& placement() const { return placement_; }
  /// The distance in ranks between neighbours along `axis`.
  int stride(Axis axis) const { return strides_[index_of(axis)]; }

  int rank_of(const Coord& coord) const;
  Coord coord_of(int rank) const;

  /// The position of `coord` among the blocks of a dimension split over `axes`.
  int index_along(const Axes& axes, const Coord& coord) const;

  /// The group of `rank` over `axes`. Without axes it is the rank alone.
  Group group(const Axes& axes, int rank) const;

  /// A part of that group: `ranks` members of it that follow each other, one of which is `rank`.
  /// `ranks` divides the size of the group, and the first part begins with its first member.
  Group part(const Axes& axes, int ranks, int rank) const;

  /// All ranks of the grid, in rank order, as seen by `rank`. Its axes are all five.
  Group everyone(int rank) const;

  bool operator==(const Grid&) const = default;

 private:
  std::array<int, kAxisCount> sizes_{};
  std::array<int, kAxisCount> strides_{};
  Placement placement_{};
  int ranks_ = 1;
};

/// "x=2 y=1 z=1 data=4 pipe=1 (8 ranks)", and the placement where it is not the default.
std::string to_string(const Grid& grid);
std::ostream& operator<<(std::ostream& out, const Grid& grid);

/// Parses "data=1,x=2,y=2,z=2". Axes that are not named have size 1. Throws ConfigError that names
/// the bad part.
Sizes parse_sizes(std::string_view text);
/// The inverse: "x=2,y=2", without sizes of 1, or "x=1" if all sizes are 1.
std::string to_string(const Sizes& sizes);
std::ostream& operator<<(std::ostream& out, const Sizes& sizes);

/// Every divisor of a positive number, in order.
std::vector<int> divisors(int number);

/// Every way to write `ranks` as the product of sizes along `axes`, in lexicographic order.
std::vector<Sizes> factorisations(int ranks, const Axes& axes);

}  // namespace fourfold::grid
