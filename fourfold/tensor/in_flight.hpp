// The communication of a training step that outlives a layer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/tensor/backlog.hpp"
#include "fourfold/tensor/gather_again.hpp"
#include "fourfold/tensor/gather_ahead.hpp"
#include "fourfold/tensor/mesh.hpp"

namespace fourfold::tensor {

/// Belongs to a step, or to a single pass outside of training. `nn::Pass` hands it to the layers.
/// It must outlive the graphs that the passes make. When it is destroyed, for instance by an
/// exception, what is under way is waited for and dropped.
class InFlight {
 public:
  explicit InFlight(const Mesh& mesh);
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// Sums of gradients.
  Backlog& sums() { return sums_; }
  /// Must be called after a layer has issued sums of gradients. Waits for the sums unless they may
  /// overlap.
  void sums_issued() {
    if (!sums_overlap_) sums_.drain();
  }
  /// The weights that are gathered.
  GatherAhead& weights() { return weights_; }
  /// The inputs of layers that the backward pass gathers again.
  GatherAgain& inputs() { return inputs_; }

 private:
  bool sums_overlap_;
  Backlog sums_;
  GatherAhead weights_;
  GatherAgain inputs_;
};

}  // namespace fourfold::tensor
