// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/groups.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"

namespace fourfold::tensor {

using grid::Axes;

namespace {

constexpr int kPurposes = 3;

/// A rank alone needs one communicator, whatever it is for.
Purpose lane_purpose(const Axes& axes, Purpose purpose) {
  return axes.empty() ? Purpose::kActivations : purpose;
}

}  // namespace

std::string_view to_string(Purpose purpose) {
  switch (purpose) {
    case Purpose::kActivations:
      return "activations";
    case Purpose::kWeights:
      return "weights";
    case Purpose::kGradients:
      return "gradients";
  }
  return "";
}

/// All lists of axes as a whole come first, then the parts.
std::vector<Groups::Span> Groups::all_spans(const grid::Grid& grid) {
  std::vector<Span> all;
  for (const Axes& axes : grid::all_lists_of_axes()) all.push_back({axes, grid.size(axes)});
  for (const Axes& axes : grid::all_lists_of_axes()) {
    if (axes.size() > kMostAxesOfAPart) break;
    for (const int ranks : grid::divisors(grid.size(axes))) {
      if (ranks > 1 && ranks < grid.size(axes)) all.push_back({axes, ranks});
    }
  }
  return all;
}

Groups::Groups(comm::World& world, const grid::Grid& grid)
    : world_(&world),
      grid_(grid),
      everyone_(world.communicator(grid.everyone(world.rank()))),
      spans_(all_spans(grid)),
      first_lane_(world.reserve_lanes(kPurposes * static_cast<int>(spans_.size()))) {
  join(Axes(), Purpose::kActivations);
}

int Groups::lane_of(const Span& span, Purpose purpose) const {
  const auto place = std::ranges::find(spans_, span) - spans_.begin();
  const auto count = static_cast<std::ptrdiff_t>(spans_.size());
  FOURFOLD_CHECK(place < count, "a part of ", span.ranks, " ranks extends along ", span.axes,
                 ": more than ", kMostAxesOfAPart, " axes");
  const auto number = static_cast<std::ptrdiff_t>(lane_purpose(span.axes, purpose)) * count + place;
  return first_lane_ + static_cast<int>(number);
}

const comm::Communicator* Groups::find(const Span& span, Purpose purpose) const {
  for (const auto& [lane, joined] : joined_) {
    if (joined.span == span && joined.purpose == lane_purpose(span.axes, purpose)) {
      return &joined.comm;
    }
  }
  return nullptr;
}

const comm::Communicator& Groups::join(const Span& span, Purpose purpose) {
  if (const comm::Communicator* found = find(span, purpose)) return *found;
  const int lane = lane_of(span, purpose);
  comm::Communicator made =
      world_->communicator(grid_.part(span.axes, span.ranks, world_->rank()), lane,
                           static_cast<int>(lane_purpose(span.axes, purpose)));
  Joined joined{span, lane_purpose(span.axes, purpose), std::move(made)};
  return joined_.emplace(lane, std::move(joined)).first->second.comm;
}

const comm::Communicator& Groups::join(const Axes& axes, Purpose purpose) {
  return join(whole(axes), purpose);
}

Groups::Span Groups::part(const Axes& axes, int ranks) const {
  FOURFOLD_CHECK(ranks >= 1 && grid_.size(axes) % ranks == 0, "parts of ", ranks, " of the ",
                 grid_.size(axes), " ranks along ", axes);
  std::vector<grid::Axis> left;
  int fine = 1;  // the size of the axes that come after this one
  for (std::size_t i = axes.size(); i-- > 0 && fine % ranks != 0;) {
    if (grid_.size(axes[i]) > 1) left.insert(left.begin(), axes[i]);
    fine *= grid_.size(axes[i]);
  }
  return {Axes(std::move(left)), ranks};
}

const comm::Communicator& Groups::join_part(const Axes& axes, int ranks, Purpose purpose) {
  return join(part(axes, ranks), purpose);
}

std::string Groups::name_of(const Joined& joined) const {
  const Span& span = joined.span;
  if (span == whole(span.axes)) return grid::to_string(span.axes);
  return concat(span.ranks, " ranks of ", span.axes);
}

const comm::Communicator& Groups::get(const Axes& axes, Purpose purpose) const {
  if (const comm::Communicator* found = find(whole(axes), purpose)) return *found;
  std::vector<std::string> names;
  for (const auto& [lane, joined] : joined_) {
    if (joined.span.axes.empty() || joined.purpose == purpose) names.push_back(name_of(joined));
  }
  throw InvariantError(concat("there is no communicator over ", axes, " for ", to_string(purpose),
                              ", since no layer has joined it (Mesh::join); joined are ",
                              fourfold::join(names, ", ")));
}

std::vector<std::string> Groups::names() const {
  std::vector<std::string> names = {grid::to_string(everyone_.group().axes)};
  for (const auto& [lane, joined] : joined_) {
    const std::string name = grid::to_string(joined.span.axes);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string Groups::lane_name(int lane) const {
  const auto found = joined_.find(lane);
  if (found != joined_.end()) {
    return concat(name_of(found->second), " ", to_string(found->second.purpose));
  }
  return lane == everyone_.lane() ? "all ranks" : concat("lane ", lane);
}

}  // namespace fourfold::tensor
