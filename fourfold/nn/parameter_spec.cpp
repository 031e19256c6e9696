// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/parameter_spec.hpp"

#include "fourfold/base/check.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;

namespace {

constexpr const char* kPage = " (docs/gradients.md, \"Parameters of one's own\")";

Axes joined(const Axes& first, const Axes& second) {
  std::vector<Axis> all(first.begin(), first.end());
  all.insert(all.end(), second.begin(), second.end());
  return Axes(std::move(all));
}

int times_named(const ParameterSpec& spec, Axis axis) {
  int times = 0;
  for (const Axes* axes : {&spec.kept, &spec.gathered, &spec.columns, &spec.replicas}) {
    if (axes->contains(axis)) ++times;
  }
  return times;
}

/// Checks that each axis has one meaning: what the ranks along it have, and how their gradients are
/// combined.
void check_axes(const Mesh& mesh, const ParameterSpec& spec) {
  for (const Axis axis : {Axis::kX, Axis::kY, Axis::kZ, Axis::kData}) {
    const int times = times_named(spec, axis);
    if (times > 1) {
      throw InvariantError(concat(spec.name, ": ", axis, " is in more than one of kept, gathered, ",
                                  "columns and replicas", kPage));
    }
    if (times == 0 && mesh.size(axis) > 1) {
      throw InvariantError(concat(spec.name, ": what do ranks along ", axis, "=", mesh.size(axis),
                                  " have of it? Name ", axis,
                                  " in kept, gathered, columns or replicas", kPage));
    }
  }
}

/// Rows are always split over z and data, and over x and y as the layer says.
void check_sums(const ParameterSpec& spec) {
  const Axes& gathered = spec.gathered;
  if (gathered.size() > 2) {
    throw InvariantError(concat(spec.name, ": it is gathered over ", gathered,
                                ", and at most two axes are possible", kPage));
  }
  const bool all = spec.summed == gathered;
  const bool second = gathered.size() == 2 && spec.summed == Axes(gathered[1]);
  if (!all && !second) {
    throw InvariantError(concat(spec.name, ": of what is gathered over ", gathered,
                                " the gradients are summed over all of it, or over the second of ",
                                "two axes, and not over ", spec.summed, kPage));
  }
  if (!all && (gathered[0] == Axis::kZ || gathered[0] == Axis::kData)) {
    throw InvariantError(concat(spec.name, ": ranks along ", gathered[0],
                                " have different rows, so its gradients must be summed over it",
                                kPage));
  }
}

}  // namespace

grid::Layout ParameterSpec::layout() const {
  std::vector<Axes> dims = {joined(kept, gathered)};
  if (shape.size() == 3) dims.emplace_back();
  if (shape.size() > 1) dims.push_back(columns);
  return grid::Layout(std::move(dims));
}

void ParameterSpec::check(const Mesh& mesh) const {
  if (name.empty()) throw InvariantError("a parameter without a name");
  if (shape.empty() || shape.size() > 3) {
    throw InvariantError(
        concat(name, ": a parameter has one to three dimensions, not ", shape.size()));
  }
  for (const std::int64_t size : shape) {
    if (size < 1) throw InvariantError(concat(name, ": a dimension of ", size, " elements"));
  }
  if (shape.size() == 1 && !columns.empty()) {
    throw InvariantError(concat(name, ": a vector has no columns to split over ", columns));
  }
  check_axes(mesh, *this);
  check_sums(*this);
}

}  // namespace fourfold::nn
