// The five axes of the process grid, and ordered lists of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::grid {

enum class Axis { kX, kY, kZ, kData, kPipe };

inline constexpr std::size_t kAxisCount = 5;
inline constexpr std::array<Axis, kAxisCount> kAllAxes = {Axis::kX, Axis::kY, Axis::kZ, Axis::kData,
                                                          Axis::kPipe};

constexpr std::size_t index_of(Axis axis) {
  return static_cast<std::size_t>(axis);
}

/// "x", "y", "z", "data", "pipe".
std::string_view to_string(Axis axis);
std::ostream& operator<<(std::ostream& out, Axis axis);

/// The axis of that name. Throws ConfigError that lists the names.
Axis parse_axis(std::string_view name);

/// Different axes in order, coarse first: a dimension split over (y, x) is cut by y, and each of
/// these blocks is cut by x. The list may be empty.
class Axes {
 public:
  Axes() = default;
  Axes(Axis axis) : axes_{axis} {}  // NOLINT: one axis is a list of one
  Axes(std::initializer_list<Axis> axes);
  explicit Axes(std::vector<Axis> axes);

  std::size_t size() const { return axes_.size(); }
  bool empty() const { return axes_.empty(); }
  Axis operator[](std::size_t i) const { return axes_[i]; }
  auto begin() const { return axes_.begin(); }
  auto end() const { return axes_.end(); }
  bool contains(Axis axis) const;

  bool operator==(const Axes&) const = default;

 private:
  std::vector<Axis> axes_;
};

/// Every list of different axes: the empty one first, then shorter before longer ones.
const std::vector<Axes>& all_lists_of_axes();

/// "y+x", the name that counters and messages use; "none" when empty, "all" for five.
std::string to_string(const Axes& axes);
std::ostream& operator<<(std::ostream& out, const Axes& axes);

}  // namespace fourfold::grid
