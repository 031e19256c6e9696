// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/groups.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"

namespace fourfold::tensor {

using grid::Axes;

namespace {

constexpr int kPurposes = 3;

int count_of_lists() {
  return static_cast<int>(grid::all_lists_of_axes().size());
}

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

Groups::Groups(comm::World& world, const grid::Grid& grid)
    : world_(&world),
      grid_(grid),
      everyone_(world.communicator(grid.everyone(world.rank()))),
      first_lane_(world.reserve_lanes(kPurposes * count_of_lists())) {
  join({}, Purpose::kActivations);
}

int Groups::lane_of(const Axes& axes, Purpose purpose) const {
  const std::vector<Axes>& lists = grid::all_lists_of_axes();
  const auto place = static_cast<int>(std::ranges::find(lists, axes) - lists.begin());
  return first_lane_ + static_cast<int>(lane_purpose(axes, purpose)) * count_of_lists() + place;
}

const comm::Communicator* Groups::find(const Axes& axes, Purpose purpose) const {
  for (const auto& [lane, joined] : joined_) {
    if (joined.axes == axes && joined.purpose == lane_purpose(axes, purpose)) return &joined.comm;
  }
  return nullptr;
}

const comm::Communicator& Groups::join(const Axes& axes, Purpose purpose) {
  if (const comm::Communicator* found = find(axes, purpose)) return *found;
  const int lane = lane_of(axes, purpose);
  comm::Communicator made = world_->communicator(grid_.group(axes, world_->rank()), lane);
  Joined joined{axes, lane_purpose(axes, purpose), std::move(made)};
  return joined_.emplace(lane, std::move(joined)).first->second.comm;
}

const comm::Communicator& Groups::get(const Axes& axes, Purpose purpose) const {
  if (const comm::Communicator* found = find(axes, purpose)) return *found;
  std::vector<std::string> names;
  for (const auto& [lane, joined] : joined_) {
    if (joined.axes.empty() || joined.purpose == purpose) {
      names.push_back(grid::to_string(joined.axes));
    }
  }
  throw InvariantError(concat("there is no communicator over ", axes, " for ", to_string(purpose),
                              ", since no layer has joined it (Mesh::join); joined are ",
                              fourfold::join(names, ", ")));
}

std::vector<std::string> Groups::names() const {
  std::vector<std::string> names = {grid::to_string(everyone_.group().axes)};
  for (const auto& [lane, joined] : joined_) {
    const std::string name = grid::to_string(joined.axes);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string Groups::lane_name(int lane) const {
  const auto found = joined_.find(lane);
  if (found != joined_.end()) {
    return concat(found->second.axes, " ", to_string(found->second.purpose));
  }
  return lane == everyone_.lane() ? "all ranks" : concat("lane ", lane);
}

}  // namespace fourfold::tensor
