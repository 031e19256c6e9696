// Finds out, when the loss or a gradient is infinite or not a number, which rank and tensor had it
// first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/model/stages.hpp"
#include "fourfold/optim/adamw.hpp"

namespace fourfold::train {

/// A tensor that has an element which is infinite or not a number.
struct NotFinite {
  std::int64_t place = 0;  ///< in the order in which a step uses parameters, loss and gradients
  int rank = 0;
  std::string tensor;      ///< "the gradient of h.0.mlp.c_fc.weight"
  bool parameter = false;  ///< whether it is a parameter, which was so before the step

  bool operator==(const NotFinite&) const = default;
};

/// "the loss is not finite on rank 3"
std::string describe(const NotFinite& found);

/// Looks on all ranks for the first tensor that is not finite, in the order in which a step uses
/// them: parameters, the loss, and gradients from the last layer to the first. The result is the
/// same on all ranks. Collective; call it after the optimizer has reduced the gradients. `loss` is
/// this rank's part.
NotFinite find_not_finite(const tensor::Mesh& mesh, const model::Stages& stages,
                          const optim::AdamW& optimizer, double loss);

}  // namespace fourfold::train
