// Activation checkpointing: keep a block's inputs only, and compute it again for its gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fourfold/tensor/torch.hpp"

namespace fourfold::nn {

/// A block as a function of its inputs; everything random in it must be a function of keys, so that
/// it gives the same again.
using BlockFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// block(inputs), without keeping what lies between. Gradients of all floating inputs; parameters
/// inside get theirs as always.
std::vector<at::Tensor> checkpoint(const BlockFunction& block,
                                   const std::vector<at::Tensor>& inputs);

}  // namespace fourfold::nn
