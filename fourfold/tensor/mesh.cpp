// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/mesh.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/base/processor.hpp"
#include "fourfold/comm/layer_scope.hpp"

namespace fourfold::tensor {

namespace {

using grid::Axes;
using grid::Axis;

/// Every group that a layer of ours communicates over, and the purpose.
const std::vector<std::pair<Axes, Purpose>>& groups() {
  static const std::vector<std::pair<Axes, Purpose>> kGroups = {
      {Axis::kX, Purpose::kActivations},
      {Axis::kY, Purpose::kActivations},
      {{Axis::kX, Axis::kY}, Purpose::kActivations},     // hidden states of embedding and head
      {{Axis::kY, Axis::kX}, Purpose::kActivations},     // the vocabulary, in the loss
      {{Axis::kData, Axis::kZ}, Purpose::kActivations},  // the loss
      {Axis::kZ, Purpose::kWeights},
      {{Axis::kY, Axis::kZ}, Purpose::kWeights},
      {{Axis::kX, Axis::kZ}, Purpose::kWeights},
      {Axis::kZ, Purpose::kGradients},
      {{Axis::kY, Axis::kZ}, Purpose::kGradients},
      {{Axis::kX, Axis::kZ}, Purpose::kGradients},
      {Axis::kData, Purpose::kGradients},
      {Axis::kData, Purpose::kWeights},
      {{Axis::kData, Axis::kZ}, Purpose::kGradients},  // of weights that are the same along z
      {{Axis::kData, Axis::kZ}, Purpose::kWeights},
      {Axis::kPipe, Purpose::kActivations},
      {Axis::kPipe, Purpose::kGradients},
      {Axis::kPipe, Purpose::kWeights},  // of a table that the first and the last stage share
      {Axis::kY, Purpose::kWeights},     // panels of SUMMA's weights
      {Axis::kY, Purpose::kGradients},   // and of their gradients
      {{Axis::kData, Axis::kZ, Axis::kY}, Purpose::kActivations},  // the loss of SUMMA
  };
  return kGroups;
}

std::string_view name_of(Purpose purpose) {
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

/// Gradients in the backlog are not yet summed over data. If that sum follows, the backlog holds no
/// more bytes than are communicated along data at once.
std::int64_t backlog_window(const Overlap& overlap, const grid::Grid& grid) {
  const bool follows = overlap.data && grid.size(Axis::kData) > 1;
  return follows ? std::min(overlap.window, overlap.segment) : overlap.window;
}

const grid::Grid& checked(const grid::Grid& grid, const comm::World& world) {
  if (grid.ranks() != world.size()) {
    throw ConfigError(
        concat("the grid ", grid, " needs ", grid.ranks(), " ranks, and there are ", world.size()));
  }
  return grid;
}

}  // namespace

Mesh::Mesh(comm::World& world, const grid::Grid& grid, const Overlap& overlap)
    : world_(&world),
      grid_(checked(grid, world)),
      dry_(!world.executes()),
      everyone_(world.communicator(grid.everyone(world.rank()))),
      alone_(world.communicator(grid.group({}, world.rank()))),
      overlap_(overlap),
      backlog_(backlog_window(overlap, grid)),
      gathers_(overlap.weights, overlap.window),
      inputs_(overlap.halves) {
  check_choices();  // checked here, where the error is reported as the user's, not in the first
                    // kernel
  coord_ = grid.coord_of(world.rank());
  for (const auto& [axes, purpose] : groups()) {
    entries_.push_back({axes, purpose, world.communicator(grid.group(axes, world.rank()))});
  }
}

const comm::Communicator* Mesh::find_comm(const Axes& axes, Purpose purpose) const {
  if (axes.empty()) return &alone_;
  for (const Entry& entry : entries_) {
    if (entry.axes == axes && entry.purpose == purpose) return &entry.comm;
  }
  return nullptr;
}

bool Mesh::has_comm(const Axes& axes, Purpose purpose) const {
  return find_comm(axes, purpose) != nullptr;
}

const comm::Communicator& Mesh::comm(const Axes& axes, Purpose purpose) const {
  const comm::Communicator* found = find_comm(axes, purpose);
  if (found == nullptr) throw InvariantError(no_comm(axes, purpose));
  return *found;
}

std::string Mesh::no_comm(const Axes& axes, Purpose purpose) const {
  std::vector<std::string> names = {grid::to_string(Axes())};
  for (const Entry& entry : entries_) {
    if (entry.purpose == purpose) names.push_back(grid::to_string(entry.axes));
  }
  return concat("there is no communicator over ", axes, " for ", name_of(purpose), ", only over ",
                join(names, ", "));
}

void Mesh::record(schedule::Schedule* schedule) {
  recorder_ = schedule;
  world_->record(schedule);
}

void Mesh::compute(const char* name, double flops, std::int64_t bytes) const {
  const std::string_view layer = comm::LayerScope::current();
  if (recorder_ != nullptr) {
    recorder_->compute(name, Flops(flops), Bytes(bytes), std::string(layer));
  }
  if (timeline_ != nullptr) timeline_->compute(name, Flops(flops), Bytes(bytes), layer);
}

void Mesh::trace(comm::Timeline* timeline) {
  timeline_ = timeline;
  world_->trace(timeline);
}

std::vector<std::string> Mesh::group_names() const {
  std::vector<std::string> names = {grid::to_string(everyone_.group().axes)};
  for (const Entry& entry : entries_) names.push_back(grid::to_string(entry.axes));
  return names;
}

std::string Mesh::lane_name(int lane) const {
  for (const Entry& entry : entries_) {
    if (entry.comm.lane() == lane) return concat(entry.axes, " ", name_of(entry.purpose));
  }
  return lane == everyone_.lane() ? "all ranks" : concat("lane ", lane);
}

}  // namespace fourfold::tensor
