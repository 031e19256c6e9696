// Activation checkpointing: only the inputs of a block are kept, and the block is computed again
// for its gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fourfold/tensor/torch.hpp"

namespace fourfold::nn {

/// A block as a function of its inputs. Everything random in it must be a function of keys, so that
/// a second call gives the same result.
using BlockFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// Returns block(inputs) without keeping intermediate results. All floating inputs get gradients,
/// and parameters inside the block get theirs as usual.
std::vector<at::Tensor> checkpoint(const BlockFunction& block,
                                   const std::vector<at::Tensor>& inputs);

}  // namespace fourfold::nn
