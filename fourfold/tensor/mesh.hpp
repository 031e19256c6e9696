// One rank's place on the grid: its communicators, the device of its tensors, and the schedule of
// what it does.
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

/// What an operation is for. Each purpose has lanes of its own, so that a weight that is gathered
/// ahead never waits for a gradient, and an activation waits for neither.
enum class Purpose { kActivations, kWeights, kGradients };

class Mesh {
 public:
  /// Makes the communicators. Every rank of the world must make its mesh at the same point. On a
  /// recording world tensors are meta tensors: a dry run. Throws ConfigError when the grid does not
  /// have as many ranks as the world.
  Mesh(comm::World& world, const grid::Grid& grid, const Overlap& overlap = {});
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  const grid::Grid& grid() const { return grid_; }
  const grid::Coord& coord() const { return coord_; }
  int size(const grid::Axes& axes) const { return grid_.size(axes); }
  /// This rank's index among the blocks of a dimension that is split over `axes`.
  int index(const grid::Axes& axes) const { return grid_.index_along(axes, coord_); }

  /// The communicator over `axes`; without axes it is that of this rank alone. Throws
  /// InvariantError, with a list of what exists, for axes that no layer of ours communicates over
  /// for this purpose.
  const comm::Communicator& comm(const grid::Axes& axes,
                                 Purpose purpose = Purpose::kActivations) const;
  bool has_comm(const grid::Axes& axes, Purpose purpose) const;
  /// "there is no communicator over x for weights, only over none, z, ...".
  std::string no_comm(const grid::Axes& axes, Purpose purpose) const;

  /// The communicator of all ranks.
  const comm::Communicator& everyone() const { return everyone_; }

  const Overlap& overlap() const { return overlap_; }
  /// Sums of gradients that are under way.
  Backlog& backlog() const { return backlog_; }
  /// Must be called after a layer has issued sums of gradients. Waits for the sums unless they may
  /// overlap.
  void settle_gradients() const {
    if (!overlap_.weight_gradients) backlog_.drain();
  }
  /// The weights that are gathered.
  GatherAhead& gathers() const { return gathers_; }
  /// The inputs of layers that the backward pass gathers again.
  GatherAgain& inputs() const { return inputs_; }

  /// Whether this is a dry run: nothing is computed, and tensors have no memory.
  bool dry() const { return dry_; }
  c10::Device device() const { return dry_ ? c10::kMeta : c10::kCPU; }

  /// Writes what the rank computes, communicates and waits for into `schedule`. A null pointer
  /// stops this.
  void record(schedule::Schedule* schedule);
  /// Adds what the rank computes, communicates and waits for to `timeline`. A null pointer stops
  /// this.
  void trace(comm::Timeline* timeline);
  /// Reports that the rank has computed. This adds a line to the schedule, and a span that ends now
  /// to the timeline, for the layer of the innermost LayerScope.
  void compute(const char* name, double flops, std::int64_t bytes) const;

  /// The names of all groups, as the counters use them: "x", "y+x", ..., "all".
  std::vector<std::string> group_names() const;
  /// What a lane is for: "x activations", "z weights".
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
  // These are mutable because operations under way belong to the rank, while layers see a constant
  // mesh.
  mutable Backlog backlog_;
  mutable GatherAhead gathers_;
  mutable GatherAgain inputs_;
  comm::Timeline* timeline_ = nullptr;
};

}  // namespace fourfold::tensor
