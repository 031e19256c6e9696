// A node of libtorch's autograd graph, made of two functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "fourfold/tensor/tensor.hpp"

namespace fourfold::tensor {

using NodeFunction = std::function<variable_list(const variable_list&)>;

/// Returns forward(inputs), which is computed without a graph. The results share the memory of what
/// `forward` returns, but are tensors of their own: `backward` may capture what `forward` returns,
/// and `forward` may return an input.
///
/// If grad mode is on and an input requires a gradient, the results get a node of the graph, which
/// keeps `backward`. Otherwise `backward` is destroyed before `forward` is called. The backward
/// pass calls backward(gradients of the results), where zeros stand for a result that was not used.
/// It returns a gradient for each input, undefined where there is none. `backward` may use
/// differentiable functions: they make a graph of the gradient where one is wanted.
///
/// As soon as `backward` has returned it is destroyed, with everything that it captured, unless the
/// graph is retained. A second backward pass then throws InvariantError. Whatever `backward` refers
/// to must outlive the graph.
///
/// As far as the graph allows, libtorch runs the nodes backward in the reverse order of their
/// creation. So the backward passes of two halves are interleaved as their forward passes were.
///
/// `layer` is the name of the layer that the node is a part of, for those who watch
/// (`tensor/node_watch`). Its text must outlive the graph.
variable_list node(std::string_view layer, const variable_list& inputs, const NodeFunction& forward,
                   NodeFunction backward);
/// A node of no layer, which nobody sees.
variable_list node(const variable_list& inputs, const NodeFunction& forward, NodeFunction backward);

/// A tensor that a backward function captures: it carries no graph.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Tensor& tensor);

  /// The tensor. Throws InvariantError if the tensor was overwritten after it was saved: gradients
  /// computed from it would be wrong.
  const Tensor& get() const;

 private:
  Tensor tensor_;
  std::uint32_t version_ = 0;
};

/// Stands for a tensor that is in flight from one node to the next, and for its gradient. The nodes
/// share the real tensor among themselves, since the tensors of a graph must be complete when a
/// node has ended.
Tensor placeholder(const at::TensorOptions& options);

}  // namespace fourfold::tensor
