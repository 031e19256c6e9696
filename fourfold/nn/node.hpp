// A node of libtorch's autograd graph, made of two functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fourfold/nn/function.hpp"

namespace fourfold::nn {

using NodeFunction = std::function<variable_list(const variable_list&)>;

/// Returns forward(inputs). When the gradient is needed, backward(gradients of the outputs) is
/// called and returns the gradients of the inputs, undefined where there is none. libtorch runs the
/// nodes backward in the reverse order of their creation as far as the graph allows. So the
/// backward passes of two halves are interleaved as their forward passes were.
variable_list node(const variable_list& inputs, const NodeFunction& forward,
                   const NodeFunction& backward);

/// Stands for a tensor that is in flight from one node to the next, and for its gradient. The nodes
/// share the real tensor among themselves, since the tensors of a graph must be complete when a
/// node has ended.
inline at::Tensor placeholder(const at::TensorOptions& options) {
  return at::empty({0}, options);
}

}  // namespace fourfold::nn
