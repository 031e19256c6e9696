// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/node.hpp"

#include <memory>
#include <type_traits>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/node_watch.hpp"

namespace fourfold::tensor {

namespace {

/// libtorch speaks of a node from the view of the backward pass: the node's inputs are the
/// gradients of the results, and its next edges lead to the nodes that made the inputs.
class FunctionNode final : public torch::autograd::Node {
 public:
  FunctionNode(std::string_view layer, torch::autograd::edge_list&& next_edges,
               NodeFunction backward)
      : Node(std::move(next_edges)), layer_(layer), backward_(std::move(backward)) {}

  variable_list apply(variable_list&& gradients) override {
    if (!backward_) {
      throw InvariantError(
          "a second backward pass through a graph that the first one has freed: run the forward "
          "pass again, or retain the graph in the first backward pass");
    }
    for (std::uint32_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) gradients[i] = input_metadata(i).zeros_like();
    }
    variable_list result = backward_(gradients);
    FOURFOLD_CHECK_EQ(result.size(), num_outputs(), "a gradient for each input of a node");
    if (!layer_.empty()) {
      NodeWatch::tell([&](NodeWatch& watch) { watch.gradients(layer_, result); });
    }
    return result;
  }

  void release_variables() override { backward_ = nullptr; }

 private:
  std::string_view layer_;
  NodeFunction backward_;
};

/// What a graph holds a node by: a shared pointer, or in newer versions of libtorch an intrusive
/// one.
using NodePointer = decltype(torch::autograd::Edge::function);

/// A pointer that owns a new node, and that destroys long graphs without deep recursion. A shared
/// pointer needs libtorch's function for this, which newer versions do not have.
template <class Pointer>
Pointer owned(torch::autograd::Node* node) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return Pointer(node, [](auto* one) { deleteNode(one); });
  } else {
    return Pointer::unsafe_steal_from_new(node);
  }
}

/// The number of times that the tensor was overwritten. Inference tensors do not count.
std::uint32_t version_of(const Tensor& tensor) {
  const c10::VariableVersion& counter = tensor.unsafeGetTensorImpl()->version_counter();
  return counter.enabled() ? counter.current_version() : 0;
}

}  // namespace

variable_list node(std::string_view layer, const variable_list& inputs, const NodeFunction& forward,
                   NodeFunction backward) {
  NodePointer made;
  if (c10::GradMode::is_enabled() && torch::autograd::any_variable_requires_grad(inputs)) {
    made = owned<NodePointer>(
        new FunctionNode(layer, torch::autograd::collect_next_edges(inputs), std::move(backward)));
  }
  backward = nullptr;
  variable_list results;
  {
    const at::NoGradGuard no_graph;
    results = forward(inputs);
    // The node would keep itself alive if `backward` captured a tensor that has the node.
    for (Tensor& result : results) result = result.detach();
  }
  if (!layer.empty()) NodeWatch::tell([&](NodeWatch& watch) { watch.results(layer, results); });
  if (made) {
    for (Tensor& result : results) torch::autograd::create_gradient_edge(result, made);
  }
  return results;
}

variable_list node(const variable_list& inputs, const NodeFunction& forward,
                   NodeFunction backward) {
  return node({}, inputs, forward, std::move(backward));
}

Saved::Saved(const Tensor& tensor) : tensor_(tensor.detach()), version_(version_of(tensor)) {}

const Tensor& Saved::get() const {
  if (version_of(tensor_) != version_) {
    throw InvariantError("a tensor that a backward pass needs was overwritten after its use");
  }
  return tensor_;
}

Tensor placeholder(const at::TensorOptions& options) {
  return at::empty({0}, options);
}

}  // namespace fourfold::tensor
