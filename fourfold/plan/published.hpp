// The performance model that the authors of AxoNN published with their 4-D algorithm: the time that
// a training step communicates, as sums of ring volumes divided by the bandwidth of each group. It
// knows no latency, no compute and no memory. It is here for comparison with the published choices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/cluster/cluster.hpp"
#include "fourfold/grid/grid.hpp"

namespace fourfold::plan {

/// Whether the model is evaluated as its authors' code does, or without the error in it. The code
/// lets the forward reduction of the projection from 4 widths to one carry 4 widths, and the
/// backward reduction one; it is the other way round.
enum class Published : std::uint8_t { kAsPublished, kCorrected };

/// A GPT whose layers are all checkpointed. All numbers are in bf16, gradients over data in f32.
struct PublishedModel {
  std::int64_t width = 0;
  std::int64_t layers = 0;
  std::int64_t context = 2048;
  std::int64_t batch = 0;         ///< sequences of a step over the whole grid
  std::int64_t accumulation = 1;  ///< passes of a step: each gathers weights and scatters gradients
};

/// The sizes of the grid, with the names of the authors: columns are our x, rows y, depth z.
struct PublishedGrid {
  int row = 1;
  int column = 1;
  int depth = 1;
  int data = 1;

  grid::Sizes sizes() const { return {.x = column, .y = row, .z = depth, .data = data}; }
  bool operator==(const PublishedGrid&) const = default;
};

/// "r8 c1 d128 dp1".
std::string to_string(const PublishedGrid& grid);
std::ostream& operator<<(std::ostream& out, const PublishedGrid& grid);

/// The bandwidth of a group of `size` members when the groups placed inside of it have `inner`
/// members together. Inside a host it is the cluster's; between hosts the sibling groups share what
/// the host's NICs carry.
BytesPerSecond published_bandwidth(const cluster::Cluster& cluster, int inner, int size);

/// The time that a step communicates. Groups are placed in the order column, row, depth, data.
Seconds published_time(const PublishedModel& model, const PublishedGrid& grid,
                       const cluster::Cluster& cluster, Published variant);

struct PublishedChoice {
  Seconds time;
  PublishedGrid grid;

  bool operator==(const PublishedChoice&) const = default;
};

/// All grids of powers of two with `gpus` ranks, at least `least_tensor` of them along row, column
/// and depth (which is how the authors treat memory), and whole sequences on each rank. The fastest
/// comes first; grids of equal time are in the order of row, column, depth. Empty if there is none.
std::vector<PublishedChoice> published_search(const PublishedModel& model, int gpus,
                                              int least_tensor, const cluster::Cluster& cluster,
                                              Published variant);

}  // namespace fourfold::plan
