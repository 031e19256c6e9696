// SPDX-License-Identifier: Apache-2.0
#include "fourfold/grid/grid.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <ostream>
#include <utility>

#include "fourfold/base/check.hpp"

namespace fourfold::grid {

namespace {

int& field(Sizes& sizes, Axis axis) {
  switch (axis) {
    case Axis::kX:
      return sizes.x;
    case Axis::kY:
      return sizes.y;
    case Axis::kZ:
      return sizes.z;
    case Axis::kData:
      return sizes.data;
    case Axis::kPipe:
      return sizes.pipe;
  }
  throw InvariantError("no such axis");
}

}  // namespace

std::string to_string(const Coord& coord) {
  std::vector<std::string> parts;
  for (Axis axis : kAllAxes) parts.push_back(concat(axis, "=", coord[axis]));
  return join(parts, " ");
}
std::ostream& operator<<(std::ostream& out, const Coord& coord) {
  return out << to_string(coord);
}

std::string to_string(const Group& group) {
  constexpr std::size_t kMostShown = 16;
  const std::vector<int>& all = group.members;
  if (all.size() <= kMostShown) return concat(group.axes, " [", join(all, " "), "]");
  return concat(group.axes, " [", all[0], " ", all[1], " ", all[2], " ... ", all.back(), "], ",
                all.size(), " ranks");
}
std::ostream& operator<<(std::ostream& out, const Group& group) {
  return out << to_string(group);
}

Placement parse_placement(std::string_view text) {
  const auto names = split(text, ',');
  Placement placement{};
  std::array<bool, kAxisCount> seen{};
  bool right = names.size() == kAxisCount;
  for (std::size_t i = 0; right && i < names.size(); ++i) {
    placement[i] = parse_axis(trim(names[i]));
    right = !std::exchange(seen[index_of(placement[i])], true);
  }
  if (!right) {
    throw ConfigError(concat("placement '", text,
                             "' must name each axis once, fastest first, as in ",
                             to_string(kDefaultPlacement)));
  }
  return placement;
}

std::string to_string(const Placement& placement) {
  return join(placement, ",");
}

Grid::Grid(const Sizes& sizes, const Placement& placement) : placement_(placement) {
  Sizes copy = sizes;
  std::array<bool, kAxisCount> seen{};
  std::int64_t ranks = 1;
  for (Axis axis : placement) {
    FOURFOLD_CHECK(!std::exchange(seen[index_of(axis)], true), "placement ", to_string(placement),
                   " names an axis twice");
    const int size = field(copy, axis);
    if (size < 1) throw ConfigError(concat("grid size ", axis, "=", size, " must be at least 1"));
    sizes_[index_of(axis)] = size;
    strides_[index_of(axis)] = static_cast<int>(ranks);
    ranks *= size;
    if (ranks > std::numeric_limits<int>::max()) {
      throw ConfigError("the grid has more ranks than 2^31");
    }
  }
  ranks_ = static_cast<int>(ranks);
}

int Grid::size(const Axes& axes) const {
  return std::accumulate(axes.begin(), axes.end(), 1,
                         [this](int product, Axis axis) { return product * size(axis); });
}

int Grid::rank_of(const Coord& coord) const {
  int rank = 0;
  for (Axis axis : kAllAxes) {
    FOURFOLD_CHECK(coord[axis] >= 0 && coord[axis] < size(axis), coord, " is outside of ", *this);
    rank += coord[axis] * stride(axis);
  }
  return rank;
}

Coord Grid::coord_of(int rank) const {
  FOURFOLD_CHECK(rank >= 0 && rank < ranks_, "rank ", rank, " is outside of ", *this);
  Coord coord;
  for (Axis axis : kAllAxes) coord[axis] = rank / stride(axis) % size(axis);
  return coord;
}

int Grid::index_along(const Axes& axes, const Coord& coord) const {
  int index = 0;
  for (Axis axis : axes) index = index * size(axis) + coord[axis];
  return index;
}

Group Grid::group(const Axes& axes, int rank) const {
  const Coord self = coord_of(rank);
  Group group{axes, std::vector<int>(static_cast<std::size_t>(size(axes))),
              index_along(axes, self)};
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    Coord member = self;
    int rest = static_cast<int>(i);
    for (std::size_t a = axes.size(); a-- > 0;) {
      member[axes[a]] = rest % size(axes[a]);
      rest /= size(axes[a]);
    }
    group.members[i] = rank_of(member);
  }
  return group;
}

Group Grid::part(const Axes& axes, int ranks, int rank) const {
  FOURFOLD_CHECK(ranks >= 1 && size(axes) % ranks == 0, "parts of ", ranks, " of the ", size(axes),
                 " ranks along ", axes);
  Group part = group(axes, rank);
  const auto first = part.members.begin() + part.index / ranks * ranks;
  part.members = std::vector<int>(first, first + ranks);
  part.index %= ranks;
  return part;
}

Group Grid::everyone(int rank) const {
  std::vector<Axis> coarse_first(placement_.rbegin(), placement_.rend());
  return group(Axes(std::move(coarse_first)), rank);
}

std::string to_string(const Grid& grid) {
  std::vector<std::string> parts;
  for (Axis axis : kAllAxes) parts.push_back(concat(axis, "=", grid.size(axis)));
  parts.push_back(concat("(", grid.ranks(), grid.ranks() == 1 ? " rank)" : " ranks)"));
  if (grid.placement() != kDefaultPlacement) {
    parts.push_back("placed " + to_string(grid.placement()));
  }
  return join(parts, " ");
}
std::ostream& operator<<(std::ostream& out, const Grid& grid) {
  return out << to_string(grid);
}

std::string to_string(const Sizes& sizes) {
  const Grid grid(sizes);
  std::vector<std::string> parts;
  for (Axis axis : kAllAxes) {
    if (grid.size(axis) > 1) parts.push_back(concat(axis, "=", grid.size(axis)));
  }
  return parts.empty() ? "x=1" : join(parts, ",");
}
std::ostream& operator<<(std::ostream& out, const Sizes& sizes) {
  return out << to_string(sizes);
}

Sizes parse_sizes(std::string_view text) {
  Sizes sizes;
  std::array<bool, kAxisCount> seen{};
  for (const std::string& piece : split(text, ',')) {
    const auto equals = piece.find('=');
    if (equals == std::string::npos) {
      throw ConfigError(concat("grid piece '", piece, "' must look like x=2"));
    }
    const Axis axis = parse_axis(trim(std::string_view(piece).substr(0, equals)));
    const auto size = parse_int(trim(std::string_view(piece).substr(equals + 1)));
    if (!size || *size < 1 || *size > std::numeric_limits<int>::max()) {
      throw ConfigError(concat("grid size '", piece, "' must be a whole number of at least 1"));
    }
    if (std::exchange(seen[index_of(axis)], true)) {
      throw ConfigError(concat("the grid names ", axis, " twice"));
    }
    field(sizes, axis) = static_cast<int>(*size);
  }
  return sizes;
}

std::vector<int> divisors(int number) {
  std::vector<int> all;
  std::vector<int> large;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    all.push_back(static_cast<int>(d));
    if (d * d < number) large.push_back(static_cast<int>(number / d));
  }
  all.insert(all.end(), large.rbegin(), large.rend());
  return all;
}

std::vector<Sizes> factorisations(int ranks, const Axes& axes) {
  FOURFOLD_CHECK(ranks >= 1);
  std::vector<std::pair<Sizes, int>> open = {{Sizes{}, ranks}};  // sizes so far, ranks left
  for (std::size_t a = 0; a < axes.size(); ++a) {
    std::vector<std::pair<Sizes, int>> next;
    for (auto& [sizes, left] : open) {
      for (const int size : divisors(left)) {
        if (a + 1 == axes.size() && size != left) continue;
        field(sizes, axes[a]) = size;
        next.emplace_back(sizes, left / size);
      }
    }
    open = std::move(next);
  }
  std::vector<Sizes> all;
  for (const auto& [sizes, left] : open) {
    if (left == 1) all.push_back(sizes);
  }
  return all;
}

}  // namespace fourfold::grid
