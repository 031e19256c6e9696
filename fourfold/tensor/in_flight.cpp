// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/in_flight.hpp"

#include <algorithm>

namespace fourfold::tensor {

namespace {

/// Gradients in the backlog are not yet summed over data. If that sum follows, the backlog holds no
/// more bytes than are communicated along data at once.
std::int64_t backlog_window(const Mesh& mesh) {
  const Overlap& overlap = mesh.overlap();
  const bool follows = overlap.data && mesh.size(grid::Axis::kData) > 1;
  return follows ? std::min(overlap.window, overlap.segment) : overlap.window;
}

}  // namespace

InFlight::InFlight(const Mesh& mesh)
    : sums_overlap_(mesh.overlap().weight_gradients),
      sums_(backlog_window(mesh)),
      weights_(mesh.overlap().weights, mesh.overlap().window),
      inputs_(mesh.overlap().halves) {}

}  // namespace fourfold::tensor
