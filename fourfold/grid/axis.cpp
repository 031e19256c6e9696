// SPDX-License-Identifier: Apache-2.0
#include "fourfold/grid/axis.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

#include "fourfold/base/check.hpp"

namespace fourfold::grid {

namespace {
constexpr std::array<std::string_view, kAxisCount> kNames = {"x", "y", "z", "data", "pipe"};
}

std::string_view to_string(Axis axis) {
  return kNames[index_of(axis)];
}
std::ostream& operator<<(std::ostream& out, Axis axis) {
  return out << to_string(axis);
}

Axis parse_axis(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) {
    throw ConfigError(concat("'", name, "' is not an axis; the axes are ", join(kNames, ", ")));
  }
  return static_cast<Axis>(found - kNames.begin());
}

Axes::Axes(std::initializer_list<Axis> axes) : Axes(std::vector<Axis>(axes)) {}

Axes::Axes(std::vector<Axis> axes) : axes_(std::move(axes)) {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    FOURFOLD_CHECK(std::count(axes_.begin(), axes_.end(), axes_[i]) == 1, "axis ", axes_[i],
                   " is named twice in ", to_string(*this));
  }
}

bool Axes::contains(Axis axis) const {
  return std::find(axes_.begin(), axes_.end(), axis) != axes_.end();
}

const std::vector<Axes>& all_lists_of_axes() {
  static const std::vector<Axes> kLists = [] {
    std::vector<Axes> lists = {Axes()};
    for (std::size_t i = 0; i < lists.size(); ++i) {  // each list is continued by the other axes
      for (const Axis axis : kAllAxes) {
        if (lists[i].contains(axis)) continue;
        std::vector<Axis> longer(lists[i].begin(), lists[i].end());
        longer.push_back(axis);
        lists.emplace_back(std::move(longer));
      }
    }
    return lists;
  }();
  return kLists;
}

std::string to_string(const Axes& axes) {
  if (axes.size() == kAxisCount) return "all";
  return axes.empty() ? "none" : join(axes, "+");
}
std::ostream& operator<<(std::ostream& out, const Axes& axes) {
  return out << to_string(axes);
}

}  // namespace fourfold::grid
