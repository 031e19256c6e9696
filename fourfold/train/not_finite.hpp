// Finds out, when the loss or a gradient is infinite or not a number, which rank and tensor had it
// first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/model/stages.hpp"
#include "fourfold/optim/adamw.hpp"

namespace fourfold::train {

/// Looks on all ranks for the first tensor that is not finite, in the order in which a step uses
/// them: parameters, the loss, and gradients from the last layer to the first. Throws an Error that
/// names step, rank and tensor. Collective; call it after the optimizer has reduced the gradients.
/// `loss` is this rank's part.
[[noreturn]] void throw_not_finite(const tensor::Mesh& mesh, const model::Stages& stages,
                                   const optim::AdamW& optimizer, std::int64_t step, double loss);

}  // namespace fourfold::train
