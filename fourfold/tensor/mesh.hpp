// One rank's place on the grid: its coordinates, its communicators, and the device of its tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "fourfold/comm/world.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/tensor/groups.hpp"
#include "fourfold/tensor/overlap.hpp"

namespace fourfold::tensor {

class Mesh {
 public:
  /// Nothing is sent, but every rank of the world must make its mesh at the same point. `device` is
  /// where the tensors of the rank are. On a recording world they are meta tensors, whatever the
  /// device: a dry run. Throws ConfigError when the grid does not have as many ranks as the world.
  Mesh(comm::World& world, const grid::Grid& grid, const Overlap& overlap = {},
       c10::Device device = c10::kCPU);
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  const grid::Grid& grid() const { return grid_; }
  const grid::Coord& coord() const { return coord_; }
  int size(const grid::Axes& axes) const { return grid_.size(axes); }
  /// This rank's index among the blocks of a dimension that is split over `axes`.
  int index(const grid::Axes& axes) const { return grid_.index_along(axes, coord_); }

  /// Makes sure that there is a communicator over `axes`, in this order, for this purpose, and
  /// returns it. Nothing is sent. A layer calls this in its constructor for every group that it
  /// communicates over. The ranks of a group need not call it at the same time or in the same order
  /// as other calls; but they must all call it before the first operation can end.
  const comm::Communicator& join(const grid::Axes& axes,
                                 Purpose purpose = Purpose::kActivations) const {
    return groups_.join(axes, purpose);
  }
  /// The same for a part of the ranks along `axes`: `ranks` of them that follow each other, of
  /// which this rank is one. `ranks` divides the size of `axes`, which are two at most. The layer
  /// keeps the reference: it is valid as long as the mesh.
  const comm::Communicator& join_part(const grid::Axes& axes, int ranks,
                                      Purpose purpose = Purpose::kActivations) const {
    return groups_.join_part(axes, ranks, purpose);
  }
  /// The communicator that was joined; without axes it is that of this rank alone. Throws
  /// InvariantError, with a list of what was joined, if nobody has asked for it.
  const comm::Communicator& comm(const grid::Axes& axes,
                                 Purpose purpose = Purpose::kActivations) const {
    return groups_.get(axes, purpose);
  }
  /// The communicator of all ranks.
  const comm::Communicator& everyone() const { return groups_.everyone(); }

  /// Which communication may overlap with compute.
  const Overlap& overlap() const { return overlap_; }

  /// Whether this is a dry run: nothing is computed, and tensors have no memory.
  bool dry() const { return dry_; }
  /// Where the tensors are that the rank computes with.
  c10::Device device() const { return device_; }
  /// Where the tensors are that the host fills before they go to the device.
  c10::Device host() const { return dry_ ? c10::kMeta : c10::kCPU; }

  /// Reports to the observers of the world that the rank has computed until now, in the phase of
  /// the innermost PhaseScope and for the layer of the innermost LayerScope.
  void compute(const char* name, const schedule::Arithmetic& arithmetic) const {
    world_->computed(name, arithmetic);
  }

  /// The names of the groups that this rank has joined, as the counters use them: "all", "x",
  /// "y+x", ...
  std::vector<std::string> group_names() const { return groups_.names(); }
  /// What a lane is for: "x activations", "z weights", "2 ranks of x activations".
  std::string lane_name(int lane) const { return groups_.lane_name(lane); }

  comm::World& world() const { return *world_; }

 private:
  comm::World* world_;
  grid::Grid grid_;
  grid::Coord coord_;
  bool dry_;
  c10::Device device_;
  Overlap overlap_;
  // This is mutable because a layer, which sees a constant mesh, may be the first to ask for a
  // communicator. Which communicators exist changes no result.
  mutable Groups groups_;
};

}  // namespace fourfold::tensor
