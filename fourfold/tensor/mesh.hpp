// One rank's place on the grid: its communicators, where its tensors live, and the schedule of what
// it does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "fourfold/comm/world.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/schedule/schedule.hpp"
#include "fourfold/tensor/backlog.hpp"
#include "fourfold/tensor/gather_again.hpp"
#include "fourfold/tensor/gather_ahead.hpp"
#include "fourfold/tensor/overlap.hpp"

namespace fourfold::tensor {

/// What an operation is for. Each has lanes of its own, so that a weight that is gathered ahead
/// never waits for a gradient, nor an activation for either.
enum class Purpose { kActivations, kWeights, kGradients };

class Mesh {
 public:
  /// Makes the communicators: every rank of the world does it at the same point. On a recording
  /// world tensors are meta tensors: a dry run. Throws ConfigError when the grid does not have as
  /// many ranks as the world.
  Mesh(comm::World& world, const grid::Grid& grid, const Overlap& overlap = {});
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  const grid::Grid& grid() const { return grid_; }
  const grid::Coord& coord() const { return coord_; }
  int size(const grid::Axes& axes) const { return grid_.size(axes); }
  /// This rank's among the blocks of a dimension split over `axes`.
  int index(const grid::Axes& axes) const { return grid_.index_along(axes, coord_); }

  /// Over no axes: this rank alone. Throws InvariantError, with what there is, for axes that no
  /// layer of ours communicates over for this purpose.
  const comm::Communicator& comm(const grid::Axes& axes,
                                 Purpose purpose = Purpose::kActivations) const;
  bool has_comm(const grid::Axes& axes, Purpose purpose) const;
  /// "there is no communicator over x for weights, only over none, z, ...".
  std::string no_comm(const grid::Axes& axes, Purpose purpose) const;

  /// All ranks.
  const comm::Communicator& everyone() const { return everyone_; }

  const Overlap& overlap() const { return overlap_; }
  /// Sums of gradients that are under way.
  Backlog& backlog() const { return backlog_; }
  /// After a layer has issued sums of gradients: waits for them unless they may run on.
  void settle_gradients() const {
    if (!overlap_.weight_gradients) backlog_.drain();
  }
  /// Weights that are brought together.
  GatherAhead& gathers() const { return gathers_; }
  /// Inputs of layers that the backward pass brings together again.
  GatherAgain& inputs() const { return inputs_; }

  /// Whether nothing is computed: tensors have no memory.
  bool dry() const { return dry_; }
  c10::Device device() const { return dry_ ? c10::kMeta : c10::kCPU; }

  /// Writes what the rank computes, communicates and waits for into `schedule`; null stops.
  void record(schedule::Schedule* schedule);
  /// Adds what the rank computes, communicates and waits for to `timeline`; null stops.
  void trace(comm::Timeline* timeline);
  /// The rank has computed: a line in the schedule, and a span in the timeline that ends now, for
  /// the layer of the innermost LayerScope.
  void compute(const char* name, double flops, std::int64_t bytes) const;

  /// The names that counters have for all groups there are: "x", "y+x", ..., "all".
  std::vector<std::string> group_names() const;
  /// What the lane is for: "x activations", "z weights".
  std::string lane_name(int lane) const;

  comm::World& world() const { return *world_; }

 private:
  struct Entry {
    grid::Axes axes;
    Purpose purpose;
    comm::Communicator comm;
  };

  const comm::Communicator* find_comm(const grid::Axes& axes, Purpose purpose) const;

  comm::World* world_;
  grid::Grid grid_;
  grid::Coord coord_;
  bool dry_;
  std::vector<Entry> entries_;
  comm::Communicator everyone_;
  comm::Communicator alone_;
  schedule::Schedule* recorder_ = nullptr;
  Overlap overlap_;
  // What is under way is the rank's, not the layers', who see a mesh that does not change.
  mutable Backlog backlog_;
  mutable GatherAhead gathers_;
  mutable GatherAgain inputs_;
  comm::Timeline* timeline_ = nullptr;
};

}  // namespace fourfold::tensor
