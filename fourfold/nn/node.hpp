// A node of libtorch's graph, made of two functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fourfold/nn/function.hpp"

namespace fourfold::nn {

using NodeFunction = std::function<variable_list(const variable_list&)>;

/// forward(inputs), and when its gradient is asked for, backward(gradients of the outputs): those
/// of the inputs, undefined where there is none. libtorch runs the nodes backward in the reverse
/// order of their making as far as the graph allows, which is what interleaves the backward passes
/// of two halves as their forward passes were.
variable_list node(const variable_list& inputs, const NodeFunction& forward,
                   const NodeFunction& backward);

/// Stands for a tensor that is on its way from one node to the next, and for its gradient: the
/// nodes share the real one, since a graph's tensors must be there when a node has ended.
inline at::Tensor token(const at::TensorOptions& options) {
  return at::empty({0}, options);
}

}  // namespace fourfold::nn
